//! Header values and keys in URLs are sent to the server and shown to nobody.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use pentad_mcp::{Endpoint, Reach};
use pentad_program::ToolSource as _;

use crate::site::{Kind, Reply, Site};
use crate::support::{Bench, call, config, document, end, words};

/// Takes what is logged while it is in force on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn s13_headers_are_sent_and_never_logged() {
    let log = Log::default();
    let sink = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || sink.clone())
        .finish();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let told = tracing::subscriber::with_default(subscriber, || runtime.block_on(talk()));
    let logged = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(logged.contains("transport_worker"), "the log was taken");
    for text in [logged, told] {
        let found: Vec<&str> = text.lines().filter(|line| line.contains("canary")).collect();
        assert!(found.is_empty(), "{found:#?}");
    }
}

/// Talks to a site that repeats every secret, and returns everything that a person could be shown.
async fn talk() -> String {
    let site = Site::start(Kind::Sessions).await;
    let headers = BTreeMap::from([
        ("X-Api-Key".to_owned(), "canary-header".to_owned()),
        ("Authorization".to_owned(), "Bearer canary-token".to_owned()),
    ]);
    let mut secret = config(&site, &[]);
    let url = format!("{}?key=canary-query", site.url());
    secret.reach = Reach::Url(Endpoint::new(&url, &headers).unwrap()).into();
    let mut told = format!("{secret:?}\n");
    let bench = Bench::of(secret);
    let act = document(&bench.server, "act").await;
    let sent = site
        .seen()
        .into_iter()
        .rfind(|seen| seen.call() == "tools/list")
        .unwrap();
    assert_eq!(sent.header("x-api-key"), Some("canary-header"));
    assert_eq!(sent.header("authorization"), Some("Bearer canary-token"));
    assert_eq!(sent.target, "/mcp?key=canary-query");
    told.push_str(&bench.server.closure_hash(&act, None));
    for status in [401, 403, 418, 500, 503] {
        site.answer(move |seen| {
            let echo = format!(
                "you sent {:?} {:?} {}",
                seen.header("x-api-key"),
                seen.header("authorization"),
                seen.target
            );
            (seen.call() == "tools/call").then(|| Reply::status(status, &echo))
        });
        let failure = call(&bench.server, "act").await.unwrap_err();
        told.push_str(&words(&site, &failure));
        told.push('\n');
    }
    site.answer(|seen| (seen.call() == "tools/call").then_some(Reply::Hangup));
    let failure = call(&bench.server, "act").await.unwrap_err();
    told.push_str(&words(&site, &failure));
    told.push_str(&format!("{:?}", bench.server.status()));
    let manifest = std::fs::read_to_string(bench.folder.path().join("cache/site.json")).unwrap();
    told.push_str(&manifest);
    end(&bench.server).await;
    told
}
