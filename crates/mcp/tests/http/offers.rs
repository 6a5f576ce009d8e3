//! Resources, templates and prompts of a server.

use pentad_mcp::{Asking, ResourceRead};
use pentad_model::ThreadId;
use pentad_program::{Attendance, Content};
use serde_json::json;

use crate::site::{Kind, Reply, Seen, Site};
use crate::support::{Bench, end};

fn asking() -> Asking {
    Asking {
        thread: ThreadId::generate(),
        cwd: "/tmp".into(),
        time_limit: None,
        attendance: Attendance::default(),
    }
}

fn offering(seen: &Seen) -> Option<Reply> {
    let list = |result| Some(Reply::result(seen, &result));
    let cached = |mut result: serde_json::Value| {
        result["resultType"] = json!("complete");
        result["ttlMs"] = json!(0);
        result["cacheScope"] = json!("private");
        result
    };
    match seen.call() {
        "resources/list" if seen.body["params"]["cursor"] == "more" => list(cached(json!({"resources": [
            {"uri": "file:///b\u{202e}.txt", "name": "b", "description": "Second\u{1b}[31m."}, {"name": "no address"}]}))),
        "resources/list" => list(cached(json!({"nextCursor": "more", "resources": [
            {"uri": "demo://a", "name": "a", "title": "The first", "mimeType": "text/plain"}]}))),
        "resources/templates/list" => list(cached(json!({"resourceTemplates": [
            {"uriTemplate": "demo://{name}", "name": "any"}]}))),
        "resources/read" => list(cached(json!({"contents": [{"uri": "demo://a", "text": "read"}]}))),
        "prompts/list" => list(cached(
            json!({"prompts": [{"name": "greet", "description": "Greets.",
            "arguments": [{"name": "who", "required": true}, {"name": "how"}]}]}),
        )),
        "prompts/get" => {
            let said = format!(
                "Greet {}!",
                seen.body["params"]["arguments"]["who"].as_str().unwrap_or("?")
            );
            let message = json!({"role": "user", "content": {"type": "text", "text": said}});
            list(json!({"resultType": "complete", "messages": [message]}))
        }
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_offers_is_listed_and_read() {
    let site = Site::start(Kind::Modern).await;
    site.answer(offering);
    let bench = Bench::new(&site);
    let offers = bench.server.offers(&asking()).await.unwrap();
    insta::assert_debug_snapshot!(offers);
    let read = ResourceRead {
        uri: offers.resources[0].uri.clone(),
        thread: ThreadId::generate(),
        cwd: "/tmp".into(),
        time_limit: None,
        attendance: Attendance::default(),
    };
    let contents = bench.server.read_resource(read).await.unwrap();
    assert!(
        matches!(&contents[..], [Content::Resource { data, .. }] if data == b"read"),
        "{contents:?}"
    );
    let arguments = json!({"who": "Ada"}).as_object().cloned().unwrap();
    let filled = bench
        .server
        .fill_prompt("greet", arguments, &asking())
        .await
        .unwrap();
    assert_eq!(
        filled.messages,
        [("user", Content::Text("Greet Ada!".to_owned()))]
    );
    end(&bench.server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_resources_is_not_asked_for_them() {
    let site = Site::start(Kind::Sessions).await;
    let bench = Bench::new(&site);
    let offers = bench.server.offers(&asking()).await.unwrap();
    assert_eq!(offers, pentad_mcp::Offers::default());
    assert_eq!(site.count("resources/list") + site.count("prompts/list"), 0);
    end(&bench.server).await;
}
