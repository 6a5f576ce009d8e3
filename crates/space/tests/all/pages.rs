use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pentad_model::options::Options;
use pentad_model::outcome::Product;
use pentad_model::{Grant, GrantSet, Refusal, RefusalKind};
use pentad_space::{PageResolver, Scene, SpaceLimits, WebPolicy};
use serde_json::json;
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::support::{Home, PNG, home_with};

const ARTICLE: &str = include_str!("article.html");

async fn site(web: WebPolicy) -> (MockServer, Home) {
    let server = MockServer::start().await;
    let mut home = home_with(SpaceLimits::default(), web);
    home.scene.grants = GrantSet::new(["net:127.0.0.1".parse::<Grant>().unwrap()]);
    (server, home)
}

async fn serve(server: &MockServer, at: &str, answer: ResponseTemplate) -> String {
    Mock::given(path(at)).respond_with(answer).mount(server).await;
    format!("{}{at}", server.uri())
}

fn html(body: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_raw(body.as_bytes().to_vec(), "text/html; charset=utf-8")
}

/// Replaces the server's port and the frame's tag, which depends on it.
fn stable(server: &MockServer, text: &str) -> String {
    let text = text.replace(&server.uri(), "http://site");
    let tag = regex::Regex::new("(data) [0-9a-f]{8,16}").unwrap();
    tag.replace_all(&text, "$1 TAG").into_owned()
}

#[tokio::test]
async fn an_article_becomes_markdown_in_a_frame() {
    let (server, home) = site(WebPolicy::default()).await;
    let url = serve(&server, "/article", html(ARTICLE)).await;
    let product = home.read(json!({"address": url})).await.unwrap();
    insta::assert_snapshot!(stable(&server, &product.text));
    assert_eq!(product.value.as_ref().unwrap()["source"], "readable");
    assert!(product.selected && product.total.is_none() && !product.failed);

    let part = home
        .read(json!({"address": url, "options": {"grep": "Harbour"}}))
        .await
        .unwrap();
    assert!(part.text.starts_with("[data "), "{}", part.text);
    assert!(part.total.is_some());
    let raw = home
        .read(json!({"address": url, "options": {"raw": true}}))
        .await
        .unwrap();
    assert!(raw.text.contains("<nav>"));
}

#[tokio::test]
async fn other_types_are_what_they_are() {
    let (server, home) = site(WebPolicy::default()).await;
    let json_body = ResponseTemplate::new(200).set_body_raw(b"{\"a\": 1}".to_vec(), "application/json");
    let url = serve(&server, "/data", json_body).await;
    assert!(home.text(&url).await.contains("{\"a\": 1}\n[end of data"));

    let png = ResponseTemplate::new(200).set_body_raw(PNG.to_vec(), "image/png");
    let url = serve(&server, "/p.png", png).await;
    assert_eq!(home.read(json!({"address": url})).await.unwrap().parts.len(), 1);

    let zip = ResponseTemplate::new(200).set_body_raw(b"PK\x03\x04".to_vec(), "application/zip");
    let url = serve(&server, "/x.zip", zip).await;
    insta::assert_snapshot!(stable(&server, &home.text(&url).await));

    let gone = ResponseTemplate::new(404).set_body_raw(b"no such page".to_vec(), "text/plain");
    let url = serve(&server, "/gone", gone).await;
    let product = home.read(json!({"address": url})).await.unwrap();
    assert!(
        product.failed && product.text.contains("HTTP status: 404"),
        "{}",
        product.text
    );
}

#[tokio::test]
async fn bodies_redirects_and_times_are_bounded() {
    let web = WebPolicy {
        body_bytes: 1000,
        page_limit: Duration::from_millis(800),
        ..WebPolicy::default()
    };
    let (server, home) = site(web).await;
    let large = ResponseTemplate::new(200).set_body_raw(vec![b'x'; 1001], "text/plain");
    let url = serve(&server, "/large", large).await;
    let refusal = home.refused(&url).await;
    assert_eq!(refusal.kind, RefusalKind::TooLarge);
    insta::assert_snapshot!(stable(&server, &refusal.to_text()));

    let turn = ResponseTemplate::new(302).insert_header("location", "/turn");
    let url = serve(&server, "/turn", turn).await;
    let refusal = home.refused(&url).await;
    assert!(
        refusal
            .message
            .ends_with("one redirect too many; 5 are followed."),
        "{refusal:?}"
    );
    assert_eq!(server.received_requests().await.unwrap().len(), 1 + 6);

    let slow = ResponseTemplate::new(200).set_delay(Duration::from_secs(60));
    let url = serve(&server, "/slow", slow).await;
    assert_eq!(home.refused(&url).await.kind, RefusalKind::Timeout);
}

#[tokio::test]
async fn a_compressed_body_is_bounded_by_what_it_becomes() {
    let web = WebPolicy {
        body_bytes: 100_000,
        ..WebPolicy::default()
    };
    let (server, home) = site(web).await;
    // Two megabytes of zeros in stored form cannot be small; in deflated form they are.
    let bomb = include_bytes!("zeros.gz");
    assert!(bomb.len() < 100_000);
    let answer = ResponseTemplate::new(200)
        .insert_header("content-encoding", "gzip")
        .set_body_raw(bomb.to_vec(), "text/plain");
    let url = serve(&server, "/bomb", answer).await;
    assert_eq!(home.refused(&url).await.kind, RefusalKind::TooLarge);
}

#[tokio::test]
async fn a_download_streams_into_the_memory() {
    let (server, home) = site(WebPolicy::default()).await;
    let report =
        ResponseTemplate::new(200).set_body_raw(b"# Report\n".to_vec(), "text/markdown; charset=utf-8");
    let url = serve(&server, "/reports/july", report).await;
    let hop = ResponseTemplate::new(301).insert_header("location", url.as_str());
    let start = serve(&server, "/latest", hop).await;
    for (target, expected) in [
        ("~/memory/in/", "~/memory/in/latest.md"),
        ("~/memory/r", "~/memory/r.md"),
    ] {
        let product = home
            .write(json!({"address": target, "options": {"fromUrl": start}}))
            .await
            .unwrap();
        assert_eq!(product.address, expected);
        assert_eq!(product.value.unwrap()["finalUrl"], url);
        assert_eq!(home.text(expected).await, "# Report\n");
    }
    let dry = json!({"address": "~/memory/dry", "options": {"fromUrl": start}, "dryRun": true});
    home.write(dry).await.unwrap();
    assert_eq!(home.refused("~/memory/dry").await.kind, RefusalKind::NotFound);
    let gone = serve(&server, "/gone", ResponseTemplate::new(404).set_body_string("no")).await;
    let refusal = home
        .write(json!({"address": "~/memory/x", "options": {"fromUrl": gone}}))
        .await
        .unwrap_err();
    assert!(
        refusal.message.ends_with("HTTP status 404; nothing was written."),
        "{refusal:?}"
    );
    let local = json!({"address": "~/memory/x", "options": {"fromUrl": "http://127.0.0.2/"}});
    assert_eq!(home.write(local).await.unwrap_err().kind, RefusalKind::Forbidden);
    let file = json!({"address": "~/memory/x", "options": {"fromUrl": "file:///etc/passwd"}});
    assert_eq!(home.write(file).await.unwrap_err().kind, RefusalKind::BadRequest);
}

#[tokio::test]
async fn a_failed_download_leaves_nothing() {
    let limits = SpaceLimits {
        memory_file_bytes: 10,
        ..SpaceLimits::default()
    };
    let server = MockServer::start().await;
    let mut home = home_with(limits, WebPolicy::default());
    home.scene.grants = GrantSet::new(["net:127.0.0.1".parse::<Grant>().unwrap()]);
    let url = serve(
        &server,
        "/x",
        ResponseTemplate::new(200).set_body_raw(vec![b'x'; 11], "text/plain"),
    )
    .await;
    let refusal = home
        .write(json!({"address": "~/memory/x.txt", "options": {"fromUrl": url}}))
        .await;
    assert_eq!(refusal.unwrap_err().kind, RefusalKind::TooLarge);
    assert_eq!(std::fs::read_dir(home.memory("")).unwrap().count(), 0);
}

struct Wiki;

#[async_trait]
impl PageResolver for Wiki {
    async fn resolve(&self, _: &Scene, url: &url::Url, _: &Options) -> Result<Option<Product>, Refusal> {
        Ok((url.host_str() == Some("wiki.example")).then(|| Product::text("from the wiki", url.as_str())))
    }
}

#[tokio::test]
async fn other_resolvers_are_asked_first() {
    let web = WebPolicy {
        page_resolvers: vec![Arc::new(Wiki)],
        ..WebPolicy::default()
    };
    let (server, home) = site(web).await;
    assert_eq!(home.text("https://wiki.example/Page").await, "from the wiki");
    let url = serve(
        &server,
        "/plain",
        ResponseTemplate::new(200).set_body_raw(b"plain".to_vec(), "text/plain"),
    )
    .await;
    assert!(home.text(&url).await.contains("plain"));
}
