use std::time::Duration;

use pentad_mcp::FaceEnd;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::{Client, options};

#[tokio::test]
async fn p07_the_end_of_input_cancels_what_runs_and_ends_the_face() {
    let mut options = options();
    options.limits.after_eof = Duration::from_millis(20);
    let mut client = Client::start(options);
    client.initialize("2025-06-18").await;
    client.read(1, "wait").await;
    client.started.recv().await.unwrap();
    client.hang_up();
    client.verbs.canceled.notified().await;
    assert_eq!(client.face.await.unwrap(), FaceEnd::Clean);
}

#[tokio::test]
async fn requests_sent_before_a_quick_end_of_input_are_answered() {
    let mut client = Client::start(options());
    client.initialize("2025-06-18").await;
    client.read(1, "value").await;
    client
        .send(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}))
        .await;
    client.hang_up();
    let mut ids: Vec<_> = client
        .rest()
        .await
        .iter()
        .map(|answer| answer["id"].as_u64())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, [Some(1), Some(2)]);
    assert_eq!(client.face.await.unwrap(), FaceEnd::Clean);
}

#[tokio::test]
async fn p09_a_call_that_ignores_its_cancellation_holds_nothing_up() {
    let mut options = options();
    options.limits.after_eof = Duration::from_millis(10);
    options.limits.shutdown = Duration::from_millis(50);
    let mut client = Client::start(options);
    client.initialize("2025-06-18").await;
    client.read(1, "stuck").await;
    client.started.recv().await.unwrap();
    client.hang_up();
    assert_eq!(client.face.await.unwrap(), FaceEnd::Abandoned);
}

#[tokio::test]
async fn a_signal_ends_the_face_while_the_client_stays() {
    let shutdown = CancellationToken::new();
    let mut options = options();
    options.shutdown = shutdown.clone();
    let mut client = Client::start(options);
    client.initialize("2025-06-18").await;
    client.read(1, "wait").await;
    client.started.recv().await.unwrap();
    shutdown.cancel();
    client.verbs.canceled.notified().await;
    assert_eq!(client.face.await.unwrap(), FaceEnd::Clean);
}

#[tokio::test]
async fn a_client_that_leaves_at_once_is_no_fault() {
    let mut client = Client::start(options());
    client.hang_up();
    assert_eq!(client.face.await.unwrap(), FaceEnd::Clean);
}
