//! The life of a session: opened once, replaced when it is lost, ended when idle.

use std::sync::Arc;
use std::time::Duration;

use pentad_program::{Readiness, ToolSource as _};

use crate::site::{Kind, Reply, Site};
use crate::support::{Bench, call, config, document, end, text, tool_call, until, words};

#[tokio::test(flavor = "multi_thread")]
async fn both_revisions_are_spoken_and_the_one_that_worked_is_remembered() {
    for (kind, opening, version) in [
        (Kind::Sessions, "initialize", "2025-11-25"),
        (Kind::Modern, "discover", "2026-07-28"),
    ] {
        let site = Site::start(kind).await;
        let bench = Bench::new(&site);
        assert_eq!(bench.server.status().readiness, Readiness::Configured);
        assert_eq!(text(&call(&bench.server, "look").await.unwrap()), "look \"x\"");
        assert_eq!(bench.server.status().readiness, Readiness::Ready);
        let manifest = std::fs::read_to_string(bench.folder.path().join("cache/site.json")).unwrap();
        let expected = format!(r#""opening":"{opening}","protocol":"{version}""#);
        assert!(manifest.contains(&expected), "{manifest}");
        let last = site
            .seen()
            .into_iter()
            .rfind(|seen| seen.call() == "tools/call")
            .unwrap();
        assert_eq!(last.header("mcp-protocol-version"), Some(version));
        if kind == Kind::Modern {
            assert_eq!(last.header("mcp-method"), Some("tools/call"));
            assert_eq!(last.header("mcp-name"), Some("look"));
        }
        end(&bench.server).await;
        let asked = site.count("server/discover");
        let again = bench.again(config(&site, &[]));
        assert_eq!(
            again.status().readiness,
            Readiness::Indexed,
            "known without asking"
        );
        call(&again, "look").await.unwrap();
        let more = usize::from(kind == Kind::Modern);
        assert_eq!(site.count("server/discover"), asked + more, "{kind:?}");
        end(&again).await;
        let farewells = if kind == Kind::Sessions { 2 } else { 0 };
        until(|| site.count("DELETE") == farewells, "the farewells").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_at_once_open_one_session() {
    let site = Site::start(Kind::Sessions).await;
    let bench = Bench::new(&site);
    let look = document(&bench.server, "look").await;
    end(&bench.server).await;
    let opened = site.count("initialize");
    let server = Arc::new(bench.again(config(&site, &[])));
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let (server, look) = (Arc::clone(&server), Arc::clone(&look));
            tokio::spawn(async move { server.call(tool_call(look, "x")).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(site.count("initialize"), opened + 1);
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m02_a_stale_session_is_renewed_once() {
    let site = Site::start(Kind::Sessions).await;
    let bench = Bench::new(&site);
    call(&bench.server, "look").await.unwrap();
    site.forget_sessions();
    // Trusted as reading only: repeated on a new session, and nobody notices.
    assert_eq!(text(&call(&bench.server, "look").await.unwrap()), "look \"x\"");
    assert_eq!(site.count("initialize"), 2);
    assert_eq!(site.calls_of("look"), 3);
    // Not known to be safe: reported, and the next call has a new session.
    site.forget_sessions();
    let failure = call(&bench.server, "act").await.unwrap_err();
    insta::assert_snapshot!(words(&site, &failure));
    assert_eq!(site.calls_of("act"), 1, "it is not repeated");
    call(&bench.server, "act").await.unwrap();
    assert_eq!(site.count("initialize"), 3);
    end(&bench.server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m02_a_server_that_never_keeps_a_session_is_asked_twice_and_no_more() {
    let site = Site::start(Kind::Sessions).await;
    let bench = Bench::new(&site);
    document(&bench.server, "look").await;
    site.answer(|seen| (seen.call() == "tools/call").then(|| Reply::status(404, "{}")));
    let failure = call(&bench.server, "look").await.unwrap_err();
    insta::assert_snapshot!(words(&site, &failure));
    assert_eq!(site.calls_of("look"), 2);
    end(&bench.server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m01_a_changed_list_is_read_within_a_second() {
    for kind in [Kind::Sessions, Kind::Modern] {
        let site = Site::start(kind).await;
        let bench = Bench::new(&site);
        call(&bench.server, "look").await.unwrap();
        let listening = if kind == Kind::Modern {
            "subscriptions/listen"
        } else {
            "GET"
        };
        until(|| site.count(listening) == 1, "a listener").await;
        let before = bench.server.generation();
        let noticed = async {
            loop {
                // Told again until the stream is there to tell: a request that was seen is not answered yet.
                site.add_tool("newcomer");
                let known = tokio::time::timeout(
                    Duration::from_millis(900),
                    until(|| bench.server.generation() > before, "a new list"),
                );
                if known.await.is_ok() {
                    break;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(20), noticed)
            .await
            .unwrap_or_else(|_| panic!("{kind:?}: {:?}", site.seen()));
        call(&bench.server, "newcomer").await.unwrap();
        end(&bench.server).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m11_an_idle_session_is_ended_and_its_tools_stay() {
    let site = Site::start(Kind::Sessions).await;
    let mut short = config(&site, &[]);
    short.limits.idle_timeout = Duration::from_millis(100);
    let bench = Bench::of(short);
    call(&bench.server, "look").await.unwrap();
    until(|| site.count("DELETE") == 1, "the farewell").await;
    until(
        || bench.server.status().readiness == Readiness::Indexed,
        "indexed again",
    )
    .await;
    assert_eq!(bench.server.status().tools, 2);
    call(&bench.server, "look").await.unwrap();
    assert_eq!(site.count("initialize"), 2);
    end(&bench.server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m10_a_server_that_is_not_there_is_not_asked_all_the_time() {
    let site = Site::start(Kind::Modern).await;
    let mut patient = config(&site, &[]);
    patient.limits.first_backoff = Duration::from_secs(600);
    let bench = Bench::of(patient);
    let look = document(&bench.server, "look").await;
    end(&bench.server).await;
    let mut gone = config(&site, &[]);
    gone.limits.first_backoff = Duration::from_secs(600);
    let server = bench.again(gone);
    site.answer(|_| Some(Reply::status(503, "{}").with("retry-after", "7")));
    let first = server.call(tool_call(Arc::clone(&look), "x")).await.unwrap_err();
    let asked = site.seen().len();
    insta::assert_snapshot!(words(&site, &first));
    let second = server.call(tool_call(look, "x")).await.unwrap_err();
    assert!(words(&site, &second).contains("is tried again in"), "{second}");
    assert_eq!(site.seen().len(), asked, "nothing is asked during the pause");
    assert!(matches!(server.status().readiness, Readiness::BackingOff { .. }));
    site.behave();
    server.open_again(None).await.unwrap();
    call(&server, "look").await.unwrap();
    end(&server).await;
}
