//! Servers that are reached by URL, from the shell: a real one, and one at which a person logs in.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::Place;
use crate::common::sdk::Installed;

/// The longest that anything is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

fn out(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A child that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_real_server_over_http_is_searched_and_called() {
    if Installed::find().is_none() {
        return;
    }
    let script = std::env::var_os("PENTAD_SERVER_EVERYTHING").unwrap();
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut server = Command::new(std::env::var_os("PENTAD_NODE").unwrap());
    server
        .arg(script)
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _server = Ended(server.spawn().unwrap());
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(start.elapsed() < PATIENCE, "the server does not listen");
        // The server says on no stream that we read when it listens.
        std::thread::sleep(Duration::from_millis(20));
    }
    let place = Place::new();
    let url = format!("http://127.0.0.1:{port}/mcp");
    out(&place
        .pentad(&["connect", "everything", "--url", &url])
        .output()
        .unwrap());
    let listed = out(&place
        .pentad(&["tools", "list", "--source", "everything"])
        .output()
        .unwrap());
    assert!(listed.contains("echo"), "{listed}");
    let called = place
        .pentad(&[
            "call",
            "everything/echo",
            "--input",
            r#"{"message": "over http"}"#,
        ])
        .output()
        .unwrap();
    assert!(out(&called).contains("over http"), "{called:?}");
    let read = place
        .pentad(&[
            "read",
            "mcp:everything/demo://resource/static/document/architecture.md",
        ])
        .output()
        .unwrap();
    assert!(out(&read).len() > 40, "{read:?}");
    let offers = out(&place.pentad(&["read", "mcp:everything/"]).output().unwrap());
    assert!(
        offers.contains("## Templates") && offers.contains("demo://resource/"),
        "{offers}"
    );
    let prompt = offers
        .lines()
        .find(|line| line.starts_with("mcp:everything/prompts/") && !line.contains("options.arguments"))
        .and_then(|line| line.split(' ').next())
        .unwrap_or_else(|| panic!("{offers}"));
    let filled = out(&place.pentad(&["read", prompt]).output().unwrap());
    assert!(filled.contains("## user"), "{filled}");
}

/// Answers as an authorization server and a guarded server do, for as many requests as come.
fn guarded(listener: &TcpListener) {
    let base = format!("http://{}", listener.local_addr().unwrap());
    for stream in listener.incoming() {
        let mut reader = BufReader::new(stream.unwrap());
        let (mut head, mut length, mut known) = (String::new(), 0, false);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap() <= 2 {
                break;
            }
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            known |= lower.trim() == "authorization: bearer canary-access";
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let (status, answer) = answer(&base, &head, &body, known);
        let answer = answer.to_string();
        let challenge = format!(
            "WWW-Authenticate: Bearer resource_metadata=\"{base}/.well-known/oauth-protected-resource/mcp\"\r\n"
        );
        let challenge = if status == 401 { challenge } else { String::new() };
        let reply = format!(
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{challenge}Content-Length: {}\r\nConnection: close\r\n\r\n{answer}",
            answer.len()
        );
        // Whoever asked may have gone.
        let _ = reader.into_inner().write_all(reply.as_bytes());
    }
}

fn answer(base: &str, head: &str, body: &[u8], known: bool) -> (u16, Value) {
    let target = head.split(' ').nth(1).unwrap_or_default();
    let asked: Value = serde_json::from_slice(body).unwrap_or_default();
    let result = |result: Value| {
        (
            200,
            json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}),
        )
    };
    let listed = json!({"name": "look", "description": "Looks.", "inputSchema": {"type": "object"}});
    match (
        target.split('?').next().unwrap_or_default(),
        asked["method"].as_str(),
    ) {
        ("/.well-known/oauth-protected-resource/mcp", _) => (
            200,
            json!({"resource": format!("{base}/mcp"), "authorization_servers": [base]}),
        ),
        ("/.well-known/oauth-authorization-server", _) => (
            200,
            json!({"issuer": base, "authorization_endpoint": format!("{base}/authorize"),
                "token_endpoint": format!("{base}/token"), "registration_endpoint": format!("{base}/register"),
                "device_authorization_endpoint": format!("{base}/device"),
                "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]}),
        ),
        ("/register", _) => (
            201,
            json!({"client_id": "registered", "redirect_uris": asked["redirect_uris"]}),
        ),
        ("/device", _) => (
            200,
            json!({"device_code": "canary-device", "user_code": "WDJB-MJHT", "verification_uri": format!("{base}/enter"),
                "expires_in": 600}),
        ),
        ("/token", _) => (
            200,
            json!({"access_token": "canary-access", "token_type": "Bearer", "refresh_token": "canary-refresh"}),
        ),
        ("/mcp", _) if !known => (401, json!({})),
        ("/mcp", Some("server/discover")) => result(
            json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private", "capabilities": {"tools": {}}}),
        ),
        ("/mcp", Some("tools/list")) => {
            result(json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [listed]}))
        }
        _ => (404, json!({})),
    }
}

/// Goes where the page would send the browser.
fn come_back(page: &str) {
    let field = |name: &str| {
        let found = page.split(['?', '&']).find_map(|pair| pair.strip_prefix(name));
        found.unwrap_or_else(|| panic!("{page} has no {name}")).to_owned()
    };
    let redirect = field("redirect_uri=").replace("%3A", ":").replace("%2F", "/");
    let (host, path) = redirect.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut browser = TcpStream::connect(host).unwrap();
    let state = field("state=");
    write!(
        browser,
        "GET /{path}?code=canary-code&state={state} HTTP/1.1\r\nHost: {host}\r\n\r\n"
    )
    .unwrap();
    let mut said = String::new();
    browser.read_to_string(&mut said).unwrap();
    assert!(said.contains("go back to the terminal"), "{said}");
}

#[test]
fn a_person_logs_in_at_a_server_and_the_tokens_are_secrets() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || guarded(&listener));
    let place = Place::new();
    out(&place
        .pentad(&["connect", "docs", "--url", &url])
        .output()
        .unwrap());
    // Nobody is logged in: doctor says so once the server has been asked.
    place
        .pentad(&["tools", "list", "--source", "docs"])
        .output()
        .unwrap();
    let doctor = place.pentad(&["doctor"]).output().unwrap();
    let found =
        String::from_utf8_lossy(&doctor.stdout).into_owned() + &String::from_utf8_lossy(&doctor.stderr);
    assert!(found.contains("pentad connect docs --login"), "{found}");

    let mut login = place
        .pentad(&[
            "connect",
            "docs",
            "--login",
            "--no-browser",
            "--json",
            "--wait",
            "60",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(login.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let waiting: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
    assert_eq!(waiting["status"], "waiting");
    come_back(waiting["open"].as_str().unwrap());
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    let status = login.wait().unwrap();
    assert!(status.success(), "{rest}");
    let done: Value = serde_json::from_str(&rest).unwrap();
    assert_eq!(done["renewable"], json!(true), "{done}");

    let listed = place
        .pentad(&["tools", "list", "--source", "docs"])
        .output()
        .unwrap();
    assert!(out(&listed).contains("look"), "{listed:?}");
    let secrets = out(&place.pentad(&["secret", "list"]).output().unwrap());
    assert_eq!(
        secrets,
        "mcp.docs.access-token\nmcp.docs.login\nmcp.docs.refresh-token\n"
    );
    for entry in [
        "config.toml",
        "cache/docs.json",
        "state/pentad.db",
        "state/pentad.db-wal",
    ] {
        let kept = std::fs::read(place.home().join(entry)).unwrap_or_default();
        assert!(!kept.windows(6).any(|part| part == b"canary"), "{entry}");
    }
    out(&place.pentad(&["disconnect", "docs"]).output().unwrap());
    let secrets = place.pentad(&["secret", "list"]).output().unwrap();
    assert!(
        !String::from_utf8_lossy(&secrets.stdout).contains("docs"),
        "{secrets:?}"
    );
}

#[test]
fn a_person_without_a_browser_here_logs_in_with_a_code() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || guarded(&listener));
    let place = Place::new();
    let url = format!("{base}/mcp");
    out(&place
        .pentad(&["connect", "docs", "--url", &url])
        .output()
        .unwrap());
    let said = out(&place
        .pentad(&["connect", "docs", "--login", "--device", "--json"])
        .output()
        .unwrap());
    let lines: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        lines[0],
        json!({"status": "waiting", "server": "docs", "open": format!("{base}/enter"), "code": "WDJB-MJHT",
            "openWithCode": null, "expiresIn": 600})
    );
    assert_eq!((&lines[1]["status"], lines.len()), (&json!("ok"), 2), "{said}");
    let listed = place
        .pentad(&["tools", "list", "--source", "docs"])
        .output()
        .unwrap();
    assert!(out(&listed).contains("look"), "{listed:?}");

    // Where no browser could come back to, a code is taken without being asked for.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let file = place.home().join("config.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(
        &file,
        format!("{config}\n[servers.docs.oauth]\nredirect_port = {port}\n"),
    )
    .unwrap();
    let output = place.pentad(&["connect", "docs", "--login"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("the login goes by a code instead"), "{told}");
    assert!(told.contains("WDJB-MJHT"), "{told}");
}

#[test]
fn a_login_that_cannot_be_says_what_to_do() {
    let place = Place::new();
    place.server("program", &["true"], "");
    let told: Vec<String> = [
        &["connect", "nobody", "--login"][..],
        &["connect", "program", "--login"],
        &["connect", "program", "--logout"],
    ]
    .into_iter()
    .map(|words| {
        let output = place.pentad(words).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).replace(&place.home().display().to_string(), "HOME")
    })
    .collect();
    insta::assert_snapshot!(told.join("\n"));
}
