//! Invoking, attaching, following.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::{client_name, start};
use pentad_model::invocation::ThreadChoice;
use pentad_model::{Actor, RunId};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

#[tokio::test]
async fn the_token_says_who_calls_and_every_outcome_is_a_200() {
    let served = start().await;
    let body = r#"{"verb":"read","arguments":{"address":"~/self"}}"#;
    for (token, actor) in [(&served.person, "user"), (&served.client, "client:cursor")] {
        let answer = served.post(token, "/api/v1/invoke", body).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json()["text"], actor);
        assert_eq!(answer.json()["status"], "refused");
    }
    let asked = served.echo.asked.lock().unwrap();
    assert_eq!(asked[0].workspace.cwd.to_str(), Some("/default"));
    assert_eq!(asked[0].arguments["address"], "~/self");
    let key = |at: usize| match &asked[at].thread {
        ThreadChoice::Key(key) => key.clone(),
        ThreadChoice::Id(id) => panic!("{id}"),
    };
    assert!(key(1).starts_with("http:client:cursor:"));
    assert!(!key(1).contains(served.client.get(..6).unwrap()));
}

#[tokio::test]
async fn thread_agent_and_workspace_are_passed_on() {
    let served = start().await;
    let body = r#"{"verb":"call","arguments":{"tool":"x"},"thread":"thread:7k2m9q4x","agent":"ada","workspace":"site","view_bytes":9}"#;
    assert_eq!(
        served.post(&served.person, "/api/v1/invoke", body).await.status,
        200
    );
    let asked = served.echo.asked.lock().unwrap().remove(0);
    assert_eq!(asked.thread, ThreadChoice::Id("7k2m9q4x".to_owned()));
    assert_eq!(asked.agent.unwrap().as_str(), "ada");
    assert_eq!(asked.workspace.cwd.to_str(), Some("/src/site"));
    assert_eq!(asked.view_bytes, Some(9));
}

#[tokio::test]
async fn malformed_bodies_have_a_status_and_a_refusal() {
    let served = start().await;
    let status = async |body: &str| {
        let answer = served.post(&served.person, "/api/v1/invoke", body).await;
        (
            answer.status,
            answer.json()["refusal"]["message"]
                .as_str()
                .unwrap_or("")
                .to_owned(),
        )
    };
    for (body, expected) in [
        ("{", 400),
        ("[]", 400),
        (r#"{"arguments":{}}"#, 400),
        (r#"{"verb":"erase"}"#, 400),
        (r#"{"verb":"read","caller":"user"}"#, 400),
        (r#"{"verb":"read","thread":"x"}"#, 400),
        (r#"{"verb":"read","agent":"a b"}"#, 400),
        (r#"{"verb":"read","workspace":"gone"}"#, 404),
    ] {
        let (found, message) = status(body).await;
        assert_eq!(found, expected, "{body}: {message}");
        assert!(!message.is_empty(), "{body}");
    }
    let large = format!(
        r#"{{"verb":"read","arguments":{{"address":"{}"}}}}"#,
        "x".repeat(5000)
    );
    assert_eq!(status(&large).await.0, 413);
    let head = format!(
        "POST /api/v1/invoke HTTP/1.1\nHost: {{ADDRESS}}\nAuthorization: Bearer {}\nContent-Type: text/plain\nContent-Length: 2",
        served.person
    );
    assert_eq!(served.raw(&head, b"{}").await.status, 415);
    assert!(served.echo.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_what_it_asked_for() {
    let mut served = start().await;
    let body = r#"{"verb":"call","arguments":{"tool":"hang"}}"#;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let request = format!(
        "POST /api/v1/invoke HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        served.address,
        served.person,
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    served.began.recv().await.unwrap();
    drop(stream);
    served.canceled.recv().await.unwrap();
}

#[tokio::test]
async fn shutting_down_cancels_what_outlasts_the_drain() {
    let mut served = start().await;
    let token = served.person.clone();
    let address = served.address;
    let request = tokio::spawn(async move {
        let body = r#"{"verb":"call","arguments":{"tool":"hang"}}"#;
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!(
            "POST /api/v1/invoke HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer)
            .await
            .unwrap();
        answer
    });
    served.began.recv().await.unwrap();
    served.shutdown.cancel();
    served.canceled.recv().await.unwrap();
    served.task.await.unwrap().unwrap();
    assert!(request.await.unwrap().starts_with("HTTP/1.1 200"));
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn events_come_from_any_position_and_go_on() {
    let served = start().await;
    for text in ["one", "two", "three"] {
        served.store.add(Actor::User, text);
    }
    let mut all = served.stream(&served.person, "?after=0", "").await;
    assert!(all.until("id: 3").await);
    assert!(all.text.contains("content-type: text/event-stream"));
    assert!(all.text.contains("event: note") && all.text.contains("\"position\":1"));
    let mut resumed = served
        .stream(&served.person, "?after=0", "Last-Event-ID: 2\r\n")
        .await;
    assert!(resumed.until("three").await);
    assert!(!resumed.text.contains("\"two\""));
    let mut fresh = served.stream(&served.person, "", "").await;
    assert!(fresh.until(": heartbeat").await);
    served.store.add(Actor::System, "four");
    for stream in [&mut all, &mut resumed, &mut fresh] {
        assert!(stream.until("id: 4").await);
    }
    assert!(!fresh.text.contains("three"));
}

/// Returns the positions that a stream carried, in order.
fn positions(text: &str) -> Vec<u64> {
    text.lines()
        .filter_map(|line| line.strip_prefix("id: ")?.trim().parse().ok())
        .collect()
}

#[tokio::test]
async fn steps_and_events_come_in_one_order_and_are_resumed_anywhere() {
    let served = start().await;
    let run = served.store.run_of(Actor::User);
    let add = |numbers: std::ops::Range<u64>| {
        for at in numbers {
            // Uneven, so that pages of the one kind reach further than pages of the other.
            if at % 7 < 5 {
                served.store.step(run, &format!("step {at}"));
            } else {
                served.store.add(Actor::User, &format!("event {at}"));
            }
        }
    };
    add(1..701);
    let mut all = served.stream(&served.person, "?after=0", "").await;
    assert!(all.until("id: 700").await);
    assert_eq!(positions(&all.text), (1..=700).collect::<Vec<_>>());
    assert!(all.text.contains("event: step") && all.text.contains("event: note"));
    assert!(all.text.contains("\"position\":1,") || all.text.contains("\"position\":1}"));
    assert!(!all.text.contains("\"prev\""));
    for after in [1, 3, 99, 333, 699] {
        let header = format!("Last-Event-ID: {after}\r\n");
        let mut resumed = served.stream(&served.person, "?after=0", &header).await;
        assert!(resumed.until("id: 700").await);
        assert_eq!(positions(&resumed.text), (after + 1..=700).collect::<Vec<_>>());
    }
    add(701..720);
    assert!(all.until("id: 719").await);
    assert_eq!(positions(&all.text), (1..=719).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_client_sees_the_steps_of_its_own_runs() {
    let served = start().await;
    let private = served.store.run_of(Actor::User);
    let own = served.store.run_of(Actor::Client(client_name()));
    served.store.step(private, "private");
    served.store.step(RunId::generate(), "of nobody");
    served.store.step(own, "own");
    let mut stream = served.stream(&served.client, "?after=0", "").await;
    assert!(stream.until("own").await);
    assert!(!stream.text.contains("private") && !stream.text.contains("of nobody"));
}

#[tokio::test]
async fn a_client_sees_its_own_events() {
    let served = start().await;
    served.store.add(Actor::User, "private");
    served
        .store
        .add(Actor::Client("other".parse().unwrap()), "foreign");
    served.store.add(Actor::Client(client_name()), "own");
    let mut stream = served.stream(&served.client, "?after=0", "").await;
    assert!(stream.until("own").await);
    assert!(!stream.text.contains("private") && !stream.text.contains("foreign"));
}

#[tokio::test]
async fn a_stream_ends_with_the_server_and_wrong_positions_are_refused() {
    let served = start().await;
    for query in ["?after=x", "?after=-1", "?before=1", "?after"] {
        let mut stream = served.stream(&served.person, query, "").await;
        assert!(stream.until("HTTP/1.1 400").await, "{query}");
    }
    let mut stream = served.stream(&served.person, "", "").await;
    assert!(stream.until(": heartbeat").await);
    served.shutdown.cancel();
    assert!(!stream.until("never").await);
    served.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_slow_reader_holds_up_nobody() {
    let served = start().await;
    let mut slow = served.stream(&served.person, "?after=0", "").await;
    for at in 0..3000 {
        served
            .store
            .add(Actor::User, &format!("{at} {}", "x".repeat(1000)));
    }
    let mut quick = served.stream(&served.person, "?after=2998", "").await;
    assert!(quick.until("id: 3000").await);
    assert!(slow.until("id: 3000").await);
}

#[tokio::test]
async fn attachments_are_streamed_and_capped() {
    let served = start().await;
    let send = async |query: &str, kind: &str, length: usize, bytes: usize| {
        let head = format!(
            "POST /api/v1/attachments{query} HTTP/1.1\nHost: {{ADDRESS}}\nAuthorization: Bearer {}\nContent-Type: {kind}\nContent-Length: {length}",
            served.client
        );
        served.raw(&head, &vec![7; bytes]).await
    };
    let kept = send("?name=..%2Fa%20b.png", "image/png", 50_000, 50_000).await;
    assert_eq!(kept.status, 201, "{kept:?}");
    let value = kept.json();
    assert_eq!(
        (value["bytes"].clone(), value["name"].clone()),
        (50_000.into(), "a b.png".into())
    );
    assert_eq!(
        (value["mime"].clone(), value["address"].clone()),
        ("image/png".into(), "attachment:bafytest".into())
    );
    assert_eq!(send("", "x/y", 100_001, 10).await.status, 413);
    assert_eq!(send("?nam=x", "x/y", 1, 1).await.status, 400);

    let chunked = format!(
        "POST /api/v1/attachments HTTP/1.1\nHost: {{ADDRESS}}\nAuthorization: Bearer {}\nTransfer-Encoding: chunked",
        served.client
    );
    let mut body = Vec::new();
    for _ in 0..12 {
        body.extend_from_slice(b"2710\r\n");
        body.extend_from_slice(&[7; 10_000]);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"0\r\n\r\n");
    assert_eq!(served.raw(&chunked, &body).await.status, 413);
    assert_eq!(
        std::fs::read_dir(served.dir.path()).unwrap().count(),
        0,
        "uploads are left"
    );
}
