//! Servers that do not answer as they should: the error names the server and the next step, and the connection lives
//! where it can.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pentad_program::ToolSource as _;
use serde_json::json;

use crate::site::{Kind, Piece, Reply, Seen, Site, event};
use crate::support::{Bench, call, config, document, end, text, tool_call, until, words};

fn is_call(seen: &Seen) -> bool {
    seen.call() == "tools/call"
}

/// The words of one call that is answered by `rule`, and whether the session was kept.
async fn told(
    kind: Kind,
    tool: &str,
    rule: impl Fn(&Seen) -> Option<Reply> + Send + Sync + 'static,
) -> String {
    let site = Site::start(kind).await;
    let mut narrow = config(&site, &[]);
    narrow.limits.max_message_bytes = 64 << 10;
    narrow.limits.call_timeout = Duration::from_millis(400);
    let bench = Bench::of(narrow);
    document(&bench.server, tool).await;
    let opened = site.count("initialize") + site.count("server/discover");
    site.answer(rule);
    let failure = call(&bench.server, tool).await.unwrap_err();
    site.behave();
    call(&bench.server, tool)
        .await
        .expect("a good answer is taken afterwards");
    let kept = site.count("initialize") + site.count("server/discover") == opened;
    end(&bench.server).await;
    format!(
        "{}\n(session {})",
        words(&site, &failure),
        if kept { "kept" } else { "replaced" }
    )
}

fn answered(reply: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> impl Fn(&Seen) -> Option<Reply> {
    move |seen| is_call(seen).then(|| reply(seen))
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_of_http_are_explained() {
    let mut all = Vec::new();
    for status in [400, 404, 429, 500, 502, 503, 302] {
        let text = told(
            Kind::Modern,
            "act",
            answered(move |_| {
                Reply::status(status, "<html><body>\u{1b}[31mno</body></html>")
                    .with("location", "http://127.0.0.1:9/")
            }),
        )
        .await;
        all.push(format!("{status}\n{text}"));
    }
    insta::assert_snapshot!(all.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_no_protocol_are_explained() {
    let html = told(
        Kind::Modern,
        "act",
        answered(|_| Reply::status(200, "<html>Sign in</html>")),
    )
    .await;
    let broken = told(
        Kind::Modern,
        "act",
        answered(|_| Reply::status(200, "{\"jsonrpc\": \"2.0\", ")),
    )
    .await;
    let large = told(
        Kind::Modern,
        "act",
        answered(|seen| {
            Reply::result(
                seen,
                &json!({"content": [{"type": "text", "text": "x".repeat(100 << 10)}]}),
            )
        }),
    )
    .await;
    let large_event = told(
        Kind::Sessions,
        "act",
        answered(|_| {
            Reply::Stream(vec![
                Piece::Text(format!("data: {}", "x".repeat(100 << 10))),
                Piece::Forever,
            ])
        }),
    )
    .await;
    let own_error = told(Kind::Modern, "act", answered(|seen| {
        Reply::status(500, &json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": {"code": -32000, "message": "no disk"}}).to_string())
    }))
    .await;
    insta::assert_snapshot!([html, broken, large, large_event, own_error].join("\n\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_end_early_or_never_are_explained() {
    let hangup = told(Kind::Sessions, "act", answered(|_| Reply::Hangup)).await;
    let half = told(
        Kind::Sessions,
        "act",
        answered(|_| {
            Reply::Stream(vec![Piece::Text(
                "data: {\"jsonrpc\": \"2.0\", \"id\"".to_owned(),
            )])
        }),
    )
    .await;
    let silent = told(
        Kind::Sessions,
        "act",
        answered(|_| Reply::Stream(vec![Piece::Forever])),
    )
    .await;
    insta::assert_snapshot!([hangup, half, silent].join("\n\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_without_an_end_does_not_keep_a_call_for_ever() {
    let site = Site::start(Kind::Modern).await;
    let mut short = config(&site, &[]);
    short.limits.call_timeout = Duration::from_millis(300);
    let bench = Bench::of(short);
    document(&bench.server, "act").await;
    site.answer(|seen| {
        is_call(seen).then(|| {
            let chatter: Vec<Piece> = (0..50_000)
                .map(|_| Piece::Text(": still here\n\n".to_owned()))
                .collect();
            Reply::Stream(chatter.into_iter().chain([Piece::Forever]).collect())
        })
    });
    let failure = call(&bench.server, "act").await.unwrap_err();
    assert!(words(&site, &failure).starts_with("[timed out]"), "{failure}");
    site.behave();
    call(&bench.server, "act").await.unwrap();
    end(&bench.server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_stream_is_taken_up_where_it_broke() {
    let site = Site::start(Kind::Sessions).await;
    let bench = Bench::new(&site);
    document(&bench.server, "act").await;
    let id = Arc::new(std::sync::Mutex::new(json!(null)));
    let begun = Arc::clone(&id);
    site.answer(move |seen| {
        if is_call(seen) {
            *begun.lock().unwrap() = seen.body["id"].clone();
            return Some(Reply::Stream(vec![Piece::Text(
                "id: 41\nretry: 10\ndata:\n\n".to_owned(),
            )]));
        }
        (seen.method == "GET" && seen.header("last-event-id") == Some("41")).then(|| {
            let result = json!({"content": [{"type": "text", "text": "resumed"}]});
            let message = json!({"jsonrpc": "2.0", "id": *begun.lock().unwrap(), "result": result});
            Reply::Stream(vec![event(Some("42"), &message)])
        })
    });
    assert_eq!(text(&call(&bench.server, "act").await.unwrap()), "resumed");
    assert_eq!(site.calls_of("act"), 1);
    end(&bench.server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_call_is_repeated_only_where_that_is_safe() {
    let site = Site::start(Kind::Sessions).await;
    let bench = Bench::new(&site);
    document(&bench.server, "look").await;
    let times = Arc::new(AtomicUsize::new(0));
    site.answer(move |seen| {
        (is_call(seen) && times.fetch_add(1, Ordering::SeqCst) == 0).then_some(Reply::Hangup)
    });
    assert_eq!(text(&call(&bench.server, "look").await.unwrap()), "look \"x\"");
    assert_eq!(site.calls_of("look"), 2);
    end(&bench.server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c02_a_cancelled_call_is_cancelled_at_the_server() {
    let site = Site::start(Kind::Sessions).await;
    let bench = Bench::new(&site);
    let act = document(&bench.server, "act").await;
    site.answer(|seen| is_call(seen).then(|| Reply::Stream(vec![Piece::Forever])));
    let asked = tool_call(act, "x");
    let cancel = asked.attendance.cancel.clone();
    let calling = bench.server.call(asked);
    let cancelling = async {
        until(|| site.calls_of("act") == 1, "the call").await;
        cancel.cancel();
    };
    let (ended, ()) = tokio::join!(calling, cancelling);
    assert_eq!(ended.unwrap_err(), pentad_program::ToolFailure::Canceled);
    until(|| site.count("notifications/cancelled") == 1, "the cancellation").await;
    end(&bench.server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_reached_is_explained() {
    let site = Site::start(Kind::Modern).await;
    let bench = Bench::new(&site);
    let look = document(&bench.server, "look").await;
    let address = site.address;
    drop(site);
    until(
        || std::net::TcpStream::connect(address).is_err(),
        "the end of the site",
    )
    .await;
    let failure = bench.server.call(tool_call(look, "x")).await.unwrap_err();
    let text = match failure {
        pentad_program::ToolFailure::Refused(refusal) => refusal.to_text(),
        other => other.to_string(),
    };
    insta::assert_snapshot!(text.replace(&address.to_string(), "HOST"));
    end(&bench.server).await;
}
