//! Logins at another device: a code is shown, asked about at the server's pace, and ends in a token or in clear words.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pentad_mcp::{DeviceLogin, LoginError, LoginResult, Reach, ServerConfig, TokenStore as _, Way};
use serde_json::json;

use crate::logins::Guarded;
use crate::site::{Reply, Seen};
use crate::support::{call, end, runtime, text};

/// A site that gives codes, at which the person lets the server say `said` before it gives a token.
async fn guarded(said: Vec<Reply>) -> Guarded {
    let guarded = Guarded::start().await;
    *guarded.codes.lock().unwrap() = Some(said.into());
    guarded
}

fn refusal(error: &str) -> Reply {
    Reply::status(400, &json!({"error": error}).to_string())
}

async fn begin_with(guarded: &Guarded, config: &ServerConfig) -> Result<DeviceLogin, LoginError> {
    let runtime = runtime(&guarded.folder);
    let tokens = Arc::new(guarded.tokens.clone());
    DeviceLogin::begin(config, &runtime.env_key, &runtime.cache_dir, tokens).await
}

async fn begin(guarded: &Guarded) -> Result<DeviceLogin, LoginError> {
    begin_with(guarded, &guarded.config()).await
}

/// Grants or denies without any waiting, and tells how long the waits would have been.
async fn finish(login: DeviceLogin) -> (Result<LoginResult, LoginError>, Vec<u64>) {
    let pauses = Arc::<Mutex<Vec<u64>>>::default();
    let noted = Arc::clone(&pauses);
    let result = login
        .finish(None, move |pause: Duration| {
            noted.lock().unwrap().push(pause.as_secs());
            std::future::ready(())
        })
        .await;
    let pauses = pauses.lock().unwrap().clone();
    (result, pauses)
}

/// The words of an error, with the port of the site taken out.
fn told(guarded: &Guarded, error: &LoginError) -> String {
    error
        .to_string()
        .replace(&guarded.site.address.to_string(), "HOST")
}

/// The forms that were sent to `target`.
fn forms(guarded: &Guarded, target: &str) -> Vec<HashMap<String, String>> {
    let form = |seen: Seen| {
        let body = seen.body.as_str().unwrap_or_default().to_owned();
        let url = reqwest::Url::parse(&format!("http://form/?{body}")).unwrap();
        url.query_pairs().into_owned().collect()
    };
    let seen = guarded.site.seen().into_iter();
    seen.filter(|seen| seen.target == target).map(form).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_at_another_device_logs_in_and_the_server_can_be_called() {
    let pending = || refusal("authorization_pending");
    let guarded = guarded(vec![pending(), pending(), refusal("slow_down"), pending()]).await;
    let server = guarded.server();
    server.open(None).await.unwrap_err();
    assert!(server.needs_login());

    let login = begin(&guarded).await.unwrap();
    let base = format!("http://{}", guarded.site.address);
    let prompt = login.prompt();
    assert_eq!(prompt.code, "WDJB-MJHT");
    assert_eq!(prompt.page, format!("{base}/enter"));
    let complete = format!("{base}/enter?user_code=WDJB-MJHT");
    assert_eq!(prompt.page_with_code.as_deref(), Some(complete.as_str()));
    assert_eq!(prompt.holds, Duration::from_secs(900));
    let (result, pauses) = finish(login).await;
    let expected = LoginResult {
        scopes: vec!["look".to_owned()],
        expires_in: Some(3_600),
        renewable: true,
    };
    assert_eq!(result.unwrap(), expected);
    // The server asked for no pause at all: the shortest is kept, and each request to slow down makes it longer.
    assert_eq!(pauses, [5, 5, 10, 10]);

    let asked = forms(&guarded, "/device").remove(0);
    assert_eq!(asked["scope"], "look");
    assert_eq!(asked["resource"], guarded.site.url());
    let polled = forms(&guarded, "/token").remove(0);
    assert_eq!(
        polled["grant_type"],
        "urn:ietf:params:oauth:grant-type:device_code"
    );
    assert_eq!(polled["device_code"], "canary-device");
    assert_eq!(polled["resource"], guarded.site.url());
    let seen = guarded.site.seen();
    let registered = seen.iter().find(|seen| seen.target == "/register").unwrap();
    assert_eq!(
        registered.body["grant_types"],
        json!(["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"])
    );

    assert!(!guarded.server().needs_login());
    assert_eq!(text(&call(&server, "look").await.unwrap()), "look \"x\"");
    // What is kept is renewed as any other login is.
    guarded.revoke();
    call(&server, "act").await.unwrap();
    let kept = guarded.tokens.load("site").await.unwrap().unwrap();
    assert_eq!(kept.access_token.as_deref(), Some("canary-access-3"));
    assert_eq!(kept.client_secret.as_deref(), Some("canary-client"));
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_is_not_granted_ends_in_words_with_a_next_step() {
    let echo = json!({"error": "access_denied", "error_description": "not today, canary-device\u{1b}[31m"});
    let mut all = Vec::new();
    for said in [
        Reply::status(400, &echo.to_string()),
        refusal("expired_token"),
        refusal("invalid_grant"),
        refusal("unauthorized_client"),
        Reply::json(&json!({"access_token": ["canary-access"]})),
        Reply::status(302, "").with("location", "http://127.0.0.1:9/token"),
    ] {
        let guarded = guarded(vec![refusal("authorization_pending"), said]).await;
        let (result, _) = finish(begin(&guarded).await.unwrap()).await;
        all.push(told(&guarded, &result.unwrap_err()));
        assert_eq!(guarded.tokens.load("site").await.unwrap(), None);
    }
    insta::assert_snapshot!(all.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn trouble_that_may_pass_does_not_end_a_login() {
    let busy = || Reply::status(503, "<html>");
    let guarded = guarded(vec![busy(), Reply::Hangup, busy()]).await;
    let (result, pauses) = finish(begin(&guarded).await.unwrap()).await;
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(pauses, [10, 20, 40]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_waited_for_longer_than_the_code_holds_or_the_person_wants() {
    let guarded = guarded(vec![
        refusal("authorization_pending"),
        refusal("authorization_pending"),
    ])
    .await;
    let login = begin(&guarded).await.unwrap();
    let forever = |_| std::future::pending();
    let limited = login.finish(Some(Duration::ZERO), forever).await.unwrap_err();
    answer_device(&guarded, json!({"expires_in": 0}));
    let login = begin(&guarded).await.unwrap();
    let expired = login.finish(None, forever).await.unwrap_err();
    insta::assert_snapshot!([told(&guarded, &limited), told(&guarded, &expired)].join("\n"));
    assert_eq!(guarded.tokens.load("site").await.unwrap(), None);
}

/// Makes the site answer a request for codes with its usual answer, in which `fields` are replaced.
fn answer_device(guarded: &Guarded, fields: serde_json::Value) {
    let base = format!("http://{}", guarded.site.address);
    guarded.also(move |seen| {
        let mut answer = json!({"device_code": "canary-device", "user_code": "A", "verification_uri": format!("{base}/enter"),
            "expires_in": 900, "interval": 5});
        for (key, value) in fields.as_object().unwrap() {
            answer[key] = value.clone();
        }
        (seen.target == "/device").then(|| Reply::json(&answer))
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn codes_that_cannot_be_used_are_refused_before_anybody_waits() {
    let guarded = guarded(Vec::new()).await;
    let mut all = Vec::new();
    for fields in [
        json!({"user_code": "A\u{1b}[31m"}),
        json!({"user_code": " "}),
        json!({"user_code": "A".repeat(65)}),
        json!({"verification_uri": "javascript:alert(1)"}),
        json!({"verification_uri": "https://me:word@a.example/"}),
        json!({"device_code": 7}),
        json!({"expires_in": "soon"}),
    ] {
        answer_device(&guarded, fields);
        all.push(told(&guarded, &begin(&guarded).await.err().unwrap()));
    }
    // A link that is no page is left out; page and code are enough.
    answer_device(
        &guarded,
        json!({"verification_uri_complete": "file:///etc/passwd", "interval": u64::MAX}),
    );
    let login = begin(&guarded).await.unwrap();
    assert_eq!(login.prompt().page_with_code, None);
    // No pace that a server names overflows anything.
    *guarded.codes.lock().unwrap() = Some(vec![refusal("slow_down")].into());
    let (result, pauses) = finish(login).await;
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(pauses, [3_605]);
    insta::assert_snapshot!(all.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_do_it_says_which_way_there_is() {
    let without = Guarded::start().await;
    let error = begin(&without).await.err().unwrap();
    assert!(matches!(error, LoginError::NoDevice(_)));
    let mut all = vec![told(&without, &error)];

    let guarded = guarded(Vec::new()).await;
    guarded.also(|seen| (seen.target == "/device").then(|| refusal("unauthorized_client")));
    all.push(told(&guarded, &begin(&guarded).await.err().unwrap()));
    guarded.also(|seen| {
        (seen.target == "/register").then(|| Reply::status(403, r#"{"error": "access_denied"}"#))
    });
    all.push(told(&guarded, &begin(&guarded).await.err().unwrap()));
    let base = format!("http://{}", guarded.site.address);
    guarded.also(move |seen| {
        let metadata = json!({"issuer": base, "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"), "device_authorization_endpoint": "http://169.254.169.254/device?key=canary"});
        (seen.target == "/.well-known/oauth-authorization-server").then(|| Reply::json(&metadata))
    });
    all.push(told(&guarded, &begin(&guarded).await.err().unwrap()));
    insta::assert_snapshot!(all.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_client_is_used_as_it_is() {
    let guarded = guarded(Vec::new()).await;
    let mut config = guarded.config();
    let Way::Fixed(Reach::Url(endpoint)) = &mut config.reach else {
        panic!("no url");
    };
    endpoint.login.client_id = Some("mine".to_owned());
    endpoint.login.client_secret = Some("canary-mine".to_owned());
    endpoint.login.scopes = vec!["look".to_owned(), "write:all".to_owned()];
    let (result, _) = finish(begin_with(&guarded, &config).await.unwrap()).await;
    assert_eq!(result.unwrap().scopes, ["look", "write:all"]);
    assert_eq!(forms(&guarded, "/register").len(), 0);
    let seen = guarded.site.seen();
    for target in ["/device", "/token"] {
        let asked = seen.iter().find(|seen| seen.target == target).unwrap();
        let known = asked.header("authorization").unwrap_or_default();
        assert!(known.starts_with("Basic "), "{target}: {known}");
    }
    // The secret stays where the person put it.
    let kept = guarded.tokens.load("site").await.unwrap().unwrap();
    assert_eq!(kept.client_secret, None);
}
