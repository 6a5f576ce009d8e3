use proptest::prelude::*;
use rmcp::model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::{RoleClient, RoleServer};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

use super::salvage::{Salvage, salvage, salvage_tail};
use super::surrogates::repair;
use super::*;

/// A transport with the far ends of its pipes.
struct Wired {
    transport: LineTransport,
    to_us: DuplexStream,
    from_us: BufReader<DuplexStream>,
    end: EndOfInput,
}

fn wired(peer: PeerEnd, max: usize) -> Wired {
    let (to_us, input) = tokio::io::duplex(1 << 16);
    let (output, from_us) = tokio::io::duplex(1 << 16);
    let end = EndOfInput::default();
    let transport = match peer {
        PeerEnd::Client => LineTransport::face(input, output, max, end.clone()),
        PeerEnd::Server => LineTransport::server(input, output, max),
    };
    Wired {
        transport,
        to_us,
        from_us: BufReader::new(from_us),
        end,
    }
}

impl Wired {
    async fn say(&mut self, line: &[u8]) {
        self.to_us.write_all(line).await.unwrap();
        self.to_us.write_all(b"\n").await.unwrap();
    }

    async fn heard(&mut self) -> String {
        let mut line = String::new();
        self.from_us.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }

    async fn client_said(&mut self) -> ClientJsonRpcMessage {
        Transport::<RoleServer>::receive(&mut self.transport)
            .await
            .unwrap()
    }

    async fn server_said(&mut self) -> ServerJsonRpcMessage {
        Transport::<RoleClient>::receive(&mut self.transport)
            .await
            .unwrap()
    }
}

fn id_of(message: &ClientJsonRpcMessage) -> RequestId {
    match message {
        JsonRpcMessage::Request(request) => request.id.clone(),
        other => panic!("no request: {other:?}"),
    }
}

const PING: &[u8] = br#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;

#[tokio::test]
async fn a_face_answers_bad_lines_and_lives() {
    let mut wired = wired(PeerEnd::Client, 4_096);
    let lines: [&[u8]; 7] = [
        b"",
        b"hello, I am a log line",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,",
        br#"{"jsonrpc":"2.0","id":2.5,"method":"ping"}"#,
        br#"{"jsonrpc":"2.0","id":"x","method":"ping","params":{"_meta":"a"}"#,
        br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        &[
            b"{\"jsonrpc\":\"2.0\",\"id\":3,\"pad\":\"".as_slice(),
            &[b'x'; 8_000],
            b"\"}",
        ]
        .concat(),
    ];
    for line in lines {
        wired.say(line).await;
    }
    wired.say(PING).await;
    assert_eq!(id_of(&wired.client_said().await), RequestId::Number(7));
    let mut answers = Vec::new();
    for _ in 0..4 {
        answers.push(wired.heard().await);
    }
    insta::assert_snapshot!(answers.join("\n"));
    assert_eq!(wired.transport.report().skipped, 1);
}

#[tokio::test]
async fn m05_a_bad_answer_fails_only_its_call() {
    let mut wired = wired(PeerEnd::Server, 4_096);
    wired.say(b"npm WARN deprecated").await;
    wired
        .say(br#"{"jsonrpc":"2.0","id":4,"result":{"content":[}}"#)
        .await;
    wired
        .say(
            &[
                b"{\"result\":\"".as_slice(),
                &[b'x'; 10_000],
                b"\",\"jsonrpc\":\"2.0\",\"id\":5}",
            ]
            .concat(),
        )
        .await;
    wired
        .say(br#"{"jsonrpc":"2.0","id":6,"result":{"content":[{"type":"text","text":"cut \ud83d"}]}}"#)
        .await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(serde_json::to_string(&wired.server_said().await).unwrap());
    }
    insta::assert_snapshot!(seen.join("\n"));
    let report = wired.transport.report();
    assert_eq!((report.skipped, report.flooded), (3, false));
    assert_eq!(
        report.samples.first().map(String::as_str),
        Some("npm WARN deprecated")
    );
}

#[tokio::test]
async fn a_batch_is_taken_apart() {
    let mut wired = wired(PeerEnd::Client, 4_096);
    wired
        .say(br#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#)
        .await;
    assert_eq!(id_of(&wired.client_said().await), RequestId::Number(1));
    assert_eq!(id_of(&wired.client_said().await), RequestId::Number(2));
}

#[tokio::test]
async fn a_flood_of_garbage_ends_the_connection() {
    let mut wired = wired(PeerEnd::Server, 1 << 20);
    let mut far = std::mem::replace(&mut wired.to_us, tokio::io::duplex(1).0);
    let flood = tokio::spawn(async move {
        let block = "still no protocol\n".repeat(4_096);
        while far.write_all(block.as_bytes()).await.is_ok() {}
    });
    let received = Transport::<RoleClient>::receive(&mut wired.transport).await;
    assert!(received.is_none());
    let report = wired.transport.report();
    assert!(report.flooded);
    assert_eq!(report.samples.len(), 8);
    drop(wired);
    flood.await.unwrap();
}

#[tokio::test]
async fn an_answer_that_the_end_cut_off_is_the_end() {
    let mut wired = wired(PeerEnd::Server, 4_096);
    wired
        .to_us
        .write_all(br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"te"#)
        .await
        .unwrap();
    wired.to_us.shutdown().await.unwrap();
    assert!(
        Transport::<RoleClient>::receive(&mut wired.transport)
            .await
            .is_none()
    );
    assert_eq!(wired.transport.report(), LineReport::default());
}

#[tokio::test]
async fn p07_the_end_of_input_waits_for_its_release() {
    let mut wired = wired(PeerEnd::Client, 4_096);
    wired.to_us.write_all(PING).await.unwrap();
    wired.to_us.shutdown().await.unwrap();
    assert_eq!(id_of(&wired.client_said().await), RequestId::Number(7));
    let end = wired.end.clone();
    let mut transport = wired.transport.clone();
    let receiving =
        tokio::spawn(async move { Transport::<RoleServer>::receive(&mut transport).await.is_none() });
    end.seen.cancelled().await;
    assert!(!receiving.is_finished());
    end.released.cancel();
    assert!(receiving.await.unwrap());
}

#[test]
fn ids_are_found_where_serializers_put_them() {
    let found = |id: &str| Some(RequestId::String(id.into()));
    assert_eq!(
        salvage(br#"{"jsonrpc" : "2.0", "id":"a\"b", "method":"x", "params":{"#),
        Salvage {
            id: found("a\"b"),
            has_id: true,
            method: true
        }
    );
    assert_eq!(salvage(br#"{"result":{"id":9},"error":"#), Salvage::default());
    assert_eq!(
        salvage(br#"{"params":[{"id":"}"}],"id":3,"#).id,
        Some(RequestId::Number(3))
    );
    assert_eq!(
        salvage_tail(br#"xx"},"jsonrpc":"2.0","id":12}"#),
        Some(RequestId::Number(12))
    );
    assert_eq!(salvage_tail(br#"{"structuredContent":{"a":1,"id":12}}}"#), None);
    assert_eq!(salvage_tail(br#"text \"id\":12}"#), None);
}

proptest! {
    #[test]
    fn repair_makes_any_cut_string_readable(text in ".*", unit in 0xD800_u16..=0xDFFF, at in 0usize..16) {
        let sound = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(repair(sound.as_bytes()), None);
        let escape = format!("\\u{unit:04x}");
        let cut: String = text.chars().take(at).collect();
        let inner = serde_json::to_string(&cut).unwrap();
        let broken = format!("{}{escape} \"", inner.strip_suffix('"').unwrap());
        let repaired = repair(broken.as_bytes()).unwrap();
        let read: String = serde_json::from_slice(&repaired).unwrap();
        prop_assert_eq!(read, format!("{cut}\u{FFFD} "));
    }

    #[test]
    fn nothing_that_is_read_panics(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        let _repaired = repair(&bytes);
        let _found = salvage(&bytes);
        let _tail = salvage_tail(&bytes);
    }
}
