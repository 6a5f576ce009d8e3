//! Hosts that a page must never come from.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use pentad_model::{Grant, GrantSet, RefusalKind};
use pentad_space::{AddressVerdict, HostResolver, SpaceLimits, WebPolicy, judge_address};
use serde_json::json;

use crate::support::{Home, home_with};

/// Answers look-ups in turn, the last answer for ever.
struct Answers {
    turns: Vec<Vec<IpAddr>>,
    asked: AtomicUsize,
}

#[async_trait]
impl HostResolver for Answers {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let turn = self
            .asked
            .fetch_add(1, Ordering::SeqCst)
            .min(self.turns.len() - 1);
        Ok(self.turns[turn].clone())
    }
}

fn answers(turns: &[&[&str]]) -> Arc<Answers> {
    let parse = |texts: &&[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    Arc::new(Answers {
        turns: turns.iter().map(parse).collect(),
        asked: AtomicUsize::new(0),
    })
}

fn home(resolver: Arc<Answers>) -> Home {
    let web = WebPolicy {
        resolver,
        ..WebPolicy::default()
    };
    home_with(SpaceLimits::default(), web)
}

/// Every spelling of a literal address that a URL parser takes.
const LITERALS: &[&str] = &[
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "017700000001",
    "127.255.255.254",
    "0.0.0.0",
    "0",
    "10.0.0.1",
    "10.1",
    "100.64.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "169.254.169.254",
    "0xa9fea9fe",
    "2852039166",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "192.168.257",
    "198.18.0.1",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "[::]",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::ffff:0:127.0.0.1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::1]",
    "[100::1]",
    "[2001::1]",
    "[2001:db8::1]",
    "[2002:7f00:1::]",
    "[3fff::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "[fec0::1]",
    "[ff02::1]",
    "①②⑦.⓪.⓪.①",
    "127。0。0。1",
    "127.0.0.1.",
];

#[tokio::test]
async fn no_literal_reaches_inside() {
    let home = home(answers(&[&["127.0.0.1"]]));
    for host in LITERALS {
        for scheme in ["http", "https"] {
            let refusal = home.refused(&format!("{scheme}://{host}:9/x")).await;
            assert_eq!(refusal.kind, RefusalKind::Forbidden, "{host}: {refusal:?}");
        }
    }
}

#[tokio::test]
async fn no_name_reaches_inside() {
    for inside in [
        "127.0.0.1",
        "10.0.0.7",
        "169.254.169.254",
        "::1",
        "::ffff:10.0.0.1",
        "fe80::1",
    ] {
        let home = home(answers(&[&[inside]]));
        for host in [
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "metadata.google.internal",
            "innocent.example",
        ] {
            let refusal = home.refused(&format!("https://{host}/x")).await;
            assert_eq!(
                refusal.kind,
                RefusalKind::Forbidden,
                "{host} {inside}: {refusal:?}"
            );
        }
    }
    let home = home(answers(&[&["10.0.0.7"]]));
    insta::assert_snapshot!(home.refused("https://innocent.example/x").await.to_text());
}

#[tokio::test]
async fn odd_urls_are_refused() {
    let home = home(answers(&[&["127.0.0.1"]]));
    for address in [
        "https://user:pw@example.org/",
        "https://user@example.org/",
        "https://[fe80::1%25eth0]/",
        "https://[::1/",
        "https://exa mple.org/",
        "https://256.256.256.256/",
        "https:///x",
    ] {
        let refusal = home.refused(address).await;
        assert!(
            matches!(refusal.kind, RefusalKind::BadRequest | RefusalKind::Forbidden),
            "{address}: {refusal:?}"
        );
    }
}

#[tokio::test]
async fn a_name_that_changes_its_address_gains_nothing() {
    let server = wiremock::MockServer::start().await;
    let port = server.address().port();
    // A check would see a public address; the connection sees what the name says then.
    let resolver = answers(&[&["93.184.215.14"], &["127.0.0.1"]]);
    let home = home(Arc::clone(&resolver));
    let url = format!("http://rebind.example:{port}/");
    let fetch = json!({"address": "~/memory/x", "options": {"fromUrl": url}, "dryRun": true});
    home.write(fetch).await.unwrap();
    assert_eq!(home.refused(&url).await.kind, RefusalKind::Forbidden);
    let fetch = json!({"address": "~/memory/x", "options": {"fromUrl": url}});
    assert_eq!(home.write(fetch).await.unwrap_err().kind, RefusalKind::Forbidden);
    assert!(resolver.asked.load(Ordering::SeqCst) >= 3);
    assert!(server.received_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_granted_connection_serves_nobody_else() {
    let server = wiremock::MockServer::start().await;
    let url = format!("http://inner.example:{}/", server.address().port());
    let mut home = home(answers(&[&["127.0.0.1"]]));
    home.scene.grants = GrantSet::new(["net:inner.example".parse::<Grant>().unwrap()]);
    home.read(json!({"address": url})).await.unwrap();
    let other = url.replace("inner.example", "other.example");
    assert_eq!(home.refused(&other).await.kind, RefusalKind::Forbidden);
    home.scene.grants = GrantSet::default();
    assert_eq!(home.refused(&url).await.kind, RefusalKind::Forbidden);
    assert_eq!(server.received_requests().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_redirect_into_the_inside_is_refused() {
    let server = wiremock::MockServer::start().await;
    let port = server.address().port();
    let targets = [
        format!("http://127.0.0.1:{port}/secret"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        format!("//other.example:{port}/secret"),
        "http://[::1]/".to_owned(),
        "file:///etc/passwd".to_owned(),
    ];
    for (number, target) in targets.iter().enumerate() {
        wiremock::Mock::given(wiremock::matchers::path(format!("/{number}")))
            .respond_with(wiremock::ResponseTemplate::new(302).insert_header("location", target.as_str()))
            .mount(&server)
            .await;
    }
    let mut home = home(answers(&[&["127.0.0.1"]]));
    home.scene.grants = GrantSet::new(["net:inner.example".parse::<Grant>().unwrap()]);
    for number in 0..targets.len() {
        let refusal = home
            .refused(&format!("http://inner.example:{port}/{number}"))
            .await;
        assert!(
            matches!(refusal.kind, RefusalKind::Forbidden | RefusalKind::BadRequest),
            "{number}: {refusal:?}"
        );
    }
    let requests = server.received_requests().await.unwrap();
    assert!(requests.iter().all(|request| request.url.path() != "/secret"));
}

#[test]
fn public_addresses_are_public() {
    for text in [
        "1.1.1.1",
        "8.8.8.8",
        "100.63.255.255",
        "100.128.0.1",
        "172.15.0.1",
        "172.32.0.1",
        "192.0.1.1",
        "198.17.255.255",
        "198.20.0.1",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00::1",
        "2001:4860::8888",
        "64:ff9b::808:808",
        "::ffff:8.8.8.8",
    ] {
        assert_eq!(
            judge_address(text.parse().unwrap()),
            AddressVerdict::Public,
            "{text}"
        );
    }
}
