//! Who is let in.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use std::sync::{Arc, Mutex};

use common::{Echo, Feeding, face, start};
use pentad_web::{Access, ServeError, Tokens, listen, serve};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

const PATHS: [&str; 5] = ["/healthz", "/api/v1/invoke", "/api/v1/events", "/mcp", "/nowhere"];

#[tokio::test]
async fn s08_a_foreign_host_is_turned_away_on_every_path() {
    let served = start().await;
    for path in PATHS {
        for host in ["evil.example", "evil.example:80", "127.0.0.1", "localhost:1"] {
            let head = format!(
                "GET {path} HTTP/1.1\nHost: {host}\nAuthorization: Bearer {}",
                served.person
            );
            let answer = served.raw(&head, b"").await;
            assert_eq!(answer.status, 403, "{path} {host} {answer:?}");
            assert_eq!(answer.json()["refusal"]["subject"], "Host");
        }
    }
    let absolute = "GET http://evil.example/healthz HTTP/1.1\nHost: {ADDRESS}";
    assert_eq!(served.raw(absolute, b"").await.status, 403);
    let twice = "GET /healthz HTTP/1.1\nHost: {ADDRESS}\nHost: {ADDRESS}";
    assert!([400, 403].contains(&served.raw(twice, b"").await.status));
    let none = "GET /healthz HTTP/1.0\nX: y";
    assert_eq!(served.raw(none, b"").await.status, 403);
    assert!(served.echo.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn s08_a_foreign_origin_is_turned_away_even_with_a_token() {
    let served = start().await;
    for origin in [
        "http://evil.example",
        "null",
        "http://localhost:3000",
        "https://{ADDRESS}",
    ] {
        let head = format!(
            "POST /api/v1/invoke HTTP/1.1\nHost: {{ADDRESS}}\nOrigin: {origin}\nAuthorization: Bearer {}\nContent-Type: application/json\nContent-Length: 2",
            served.person
        );
        let answer = served.raw(&head, b"{}").await;
        assert_eq!(
            (answer.status, answer.json()["refusal"]["subject"].clone()),
            (403, "Origin".into()),
            "{origin}"
        );
    }
    let same = "GET /healthz HTTP/1.1\nHost: {ADDRESS}\nOrigin: http://{ADDRESS}";
    assert_eq!(served.raw(same, b"").await.status, 200);
    let named = "GET /healthz HTTP/1.1\nHost: pentad.lan\nOrigin: https://pentad.lan";
    assert_eq!(served.raw(named, b"").await.status, 200);
}

#[tokio::test]
async fn s10_every_api_path_needs_a_token_in_a_header() {
    let served = start().await;
    let ways = [
        String::new(),
        "\nAuthorization: Bearer wrong".to_owned(),
        "\nAuthorization: Basic dXNlcjpwYXNz".to_owned(),
        format!("\nAuthorization: {}", served.person),
        format!(
            "\nCookie: token={}; Authorization=Bearer {}",
            served.person, served.person
        ),
        format!("\nX-Api-Key: {}", served.person),
        format!(
            "\nAuthorization: Bearer {}\nAuthorization: Bearer {}",
            served.person, served.person
        ),
    ];
    for path in [
        "/api/v1/invoke",
        "/api/v1/events",
        "/api/v1/attachments",
        "/api/v1/nowhere",
        "/mcp",
    ] {
        for way in &ways {
            let head = format!(
                "GET {path}?token={} HTTP/1.1\nHost: {{ADDRESS}}{way}",
                served.person
            );
            let answer = served.raw(&head, b"").await;
            assert_eq!(answer.status, 401, "{path} {way}");
            assert!(answer.head.contains("www-authenticate: Bearer"));
        }
    }
    assert!(served.echo.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn answers_are_neither_stored_nor_sniffed() {
    let served = start().await;
    let answer = served.raw("GET /healthz HTTP/1.1\nHost: {ADDRESS}", b"").await;
    assert_eq!(answer.json()["status"], "ok");
    for header in [
        "x-content-type-options: nosniff",
        "cache-control: no-store",
        "referrer-policy: no-referrer",
    ] {
        assert!(answer.head.contains(header), "{header}");
    }
    assert!(!answer.head.contains("access-control"));
}

#[tokio::test]
async fn paths_that_are_not_there_say_what_is() {
    let served = start().await;
    let unknown = served.raw("GET /x HTTP/1.1\nHost: {ADDRESS}", b"").await;
    assert_eq!(unknown.status, 404);
    assert!(unknown.body.contains("POST /api/v1/invoke"));
    let head = format!(
        "GET /api/v1/invoke HTTP/1.1\nHost: {{ADDRESS}}\nAuthorization: Bearer {}",
        served.person
    );
    assert_eq!(served.raw(&head, b"").await.status, 405);
}

#[tokio::test]
async fn s09_other_machines_are_served_only_with_a_configured_token() {
    let dir = tempfile::tempdir().unwrap();
    let serve_at = async |access: Access| {
        let listener = listen("0.0.0.0:0".parse().unwrap()).await.unwrap();
        let echo = Arc::new(Echo {
            asked: Mutex::default(),
            canceled: mpsc::channel(1).0,
            began: mpsc::channel(1).0,
        });
        let store = Arc::new(Feeding {
            events: Mutex::default(),
            steps: Mutex::default(),
            owners: Mutex::default(),
            head: watch::channel(0).0,
        });
        let shutdown = CancellationToken::new();
        shutdown.cancel();
        serve(listener, face(echo, store, access, dir.path()), shutdown).await
    };
    let generated = serve_at(Access::Tokens(Tokens::generate([]).unwrap()))
        .await
        .unwrap_err();
    assert!(matches!(generated, ServeError::Exposed { .. }), "{generated}");
    assert!(generated.to_string().contains("Next: add token"), "{generated}");
    assert!(serve_at(Access::InsecureLoopback).await.is_err());
    let mut tokens = Tokens::generate([]).unwrap();
    tokens.add_person("0123456789abcdef").unwrap();
    serve_at(Access::Tokens(tokens)).await.unwrap();
}

#[tokio::test]
async fn a_port_in_use_is_named_with_the_next_step() {
    let first = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = first.local_addr().unwrap();
    let error = listen(address).await.unwrap_err().to_string();
    let port = address.port();
    assert_eq!(
        error,
        format!(
            "port {port} of 127.0.0.1 is in use, perhaps by another pentad up (pentad stop ends it)\n\
             Next: ss -ltnp 'sport = :{port}' shows who holds it; --port 0 takes any free one"
        )
    );
}
