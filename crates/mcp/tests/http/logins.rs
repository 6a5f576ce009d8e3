//! Logins: a run is refused with the next step, a person logs in, tokens are renewed, and nobody sees them.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use pentad_mcp::{
    ConnectedServer, Endpoint, KeptLogin, Login, LoginError, LoginResult, Reach, ServerConfig, TokenStore,
    TokenStoreError,
};
use pentad_program::ToolSource as _;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::site::{Kind, Reply, Seen, Site};
use crate::support::{call, config, document, end, runtime, text, tool_call, words};

const REDIRECT: &str = "http://127.0.0.1:1/callback";

/// Logins in memory, and a witness of what is kept.
#[derive(Clone, Default)]
pub struct Tokens(Arc<Mutex<HashMap<String, KeptLogin>>>);

#[async_trait]
impl TokenStore for Tokens {
    async fn load(&self, server: &str) -> Result<Option<KeptLogin>, TokenStoreError> {
        Ok(self.0.lock().unwrap().get(server).cloned())
    }

    async fn save(&self, server: &str, login: &KeptLogin) -> Result<(), TokenStoreError> {
        self.0.lock().unwrap().insert(server.to_owned(), login.clone());
        Ok(())
    }

    async fn remove(&self, server: &str) -> Result<bool, TokenStoreError> {
        Ok(self.0.lock().unwrap().remove(server).is_some())
    }

    async fn exclusive(&self, _server: &str) -> Result<Box<dyn Send>, TokenStoreError> {
        Ok(Box::new(()))
    }
}

/// A site that is its own authorization server: it takes the newest token only.
pub struct Guarded {
    pub site: Site,
    rule: Arc<Rule>,
    /// How many tokens were given; the newest is `canary-access-N`.
    given: Arc<AtomicUsize>,
    /// Whether refresh tokens are taken.
    renews: Arc<Mutex<bool>>,
    /// What the person at the other device lets the server say before it gives a token; `None` where there are no codes.
    pub codes: Arc<Mutex<Option<VecDeque<Reply>>>>,
    /// The scope without which `act` is forbidden.
    wanted: Arc<Mutex<Option<&'static str>>>,
    pub folder: TempDir,
    pub tokens: Tokens,
}

impl Guarded {
    pub async fn start() -> Self {
        let site = Site::start(Kind::Sessions).await;
        let given = Arc::<AtomicUsize>::default();
        let renews = Arc::new(Mutex::new(true));
        let codes = Arc::<Mutex<Option<VecDeque<Reply>>>>::default();
        let wanted = Arc::<Mutex<Option<&'static str>>>::default();
        let rule = Rule {
            base: format!("http://{}", site.address),
            given: Arc::clone(&given),
            renews: Arc::clone(&renews),
            codes: Arc::clone(&codes),
            wanted: Arc::clone(&wanted),
        };
        let rule = Arc::new(rule);
        let usual = Arc::clone(&rule);
        site.answer(move |seen| usual.answer(seen));
        Self {
            rule,
            site,
            given,
            renews,
            codes,
            wanted,
            folder: tempfile::tempdir().unwrap(),
            tokens: Tokens::default(),
        }
    }

    /// Answers by `first`, and as always where it says nothing.
    pub fn also(&self, first: impl Fn(&Seen) -> Option<Reply> + Send + Sync + 'static) {
        let usual = Arc::clone(&self.rule);
        self.site
            .answer(move |seen| first(seen).or_else(|| usual.answer(seen)));
    }

    pub fn config(&self) -> ServerConfig {
        config(&self.site, &[])
    }

    pub fn server(&self) -> ConnectedServer {
        self.server_of(self.config())
    }

    fn server_of(&self, config: ServerConfig) -> ConnectedServer {
        let mut runtime = runtime(&self.folder);
        runtime.tokens = Arc::new(self.tokens.clone());
        ConnectedServer::new(config, runtime).unwrap()
    }

    async fn begin(&self) -> Result<Login, LoginError> {
        let runtime = runtime(&self.folder);
        let tokens = Arc::new(self.tokens.clone());
        Login::begin(
            &self.config(),
            &runtime.env_key,
            &runtime.cache_dir,
            tokens,
            REDIRECT,
        )
        .await
    }

    /// Logs in as a person does, and returns what the page was asked for.
    async fn log_in(&self) -> (LoginResult, HashMap<String, String>) {
        let login = self.begin().await.unwrap();
        let page = reqwest::Url::parse(login.authorization_url()).unwrap();
        let asked: HashMap<String, String> = page.query_pairs().into_owned().collect();
        let back = format!("{REDIRECT}?code=canary-code&state={}", asked["state"]);
        (login.finish(&back).await.unwrap(), asked)
    }

    /// Makes the newest token worthless.
    pub fn revoke(&self) {
        self.given.fetch_add(1, Ordering::SeqCst);
    }
}

struct Rule {
    base: String,
    given: Arc<AtomicUsize>,
    renews: Arc<Mutex<bool>>,
    codes: Arc<Mutex<Option<VecDeque<Reply>>>>,
    wanted: Arc<Mutex<Option<&'static str>>>,
}

impl Rule {
    fn answer(&self, seen: &Seen) -> Option<Reply> {
        let base = &self.base;
        let path = seen.target.split('?').next().unwrap_or_default();
        match path {
            "/.well-known/oauth-protected-resource/mcp" => Some(Reply::json(&json!({
                "resource": format!("{base}/mcp"), "authorization_servers": [base], "scopes_supported": ["look"]}))),
            "/.well-known/oauth-authorization-server" => Some(self.metadata()),
            "/device" => Some(Reply::json(&json!({
                "device_code": "canary-device", "user_code": "WDJB-MJHT", "verification_uri": format!("{base}/enter"),
                "verification_uri_complete": format!("{base}/enter?user_code=WDJB-MJHT"), "expires_in": 900, "interval": 0}))),
            "/register" => Some(Reply::status(201, &json!({
                "client_id": "registered", "client_secret": "canary-client", "redirect_uris": seen.body["redirect_uris"]}).to_string())),
            "/token" => Some(self.token(seen)),
            "/mcp" => self.guard(seen),
            _ => Some(Reply::status(404, "{}")),
        }
    }

    fn metadata(&self) -> Reply {
        let base = &self.base;
        let mut metadata = json!({
            "issuer": base, "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"), "registration_endpoint": format!("{base}/register"),
            "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]});
        if self.codes.lock().unwrap().is_some() {
            metadata["device_authorization_endpoint"] = json!(format!("{base}/device"));
        }
        Reply::json(&metadata)
    }

    fn token(&self, seen: &Seen) -> Reply {
        let form = seen.body.as_str().unwrap_or_default();
        if form.contains("device_code") {
            let said = self.codes.lock().unwrap().as_mut().and_then(VecDeque::pop_front);
            if let Some(said) = said {
                return said;
            }
        }
        let renewal = form.contains("grant_type=refresh_token");
        if renewal && !*self.renews.lock().unwrap() {
            return Reply::status(400, r#"{"error": "invalid_grant"}"#);
        }
        let number = self.given.fetch_add(1, Ordering::SeqCst) + 1;
        Reply::json(&json!({
            "access_token": format!("canary-access-{number}"), "token_type": "Bearer", "expires_in": 3600,
            "refresh_token": format!("canary-refresh-{number}")}))
    }

    fn guard(&self, seen: &Seen) -> Option<Reply> {
        let good = format!("Bearer canary-access-{}", self.given.load(Ordering::SeqCst));
        let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", self.base);
        if seen.header("authorization") != Some(&good) {
            let challenge = format!(r#"Bearer resource_metadata="{metadata}""#);
            return Some(Reply::status(401, "{}").with("www-authenticate", challenge));
        }
        if seen.tool() == "act" && seen.body["params"]["arguments"]["text"] == "echo" {
            return Some(Reply::status(
                418,
                seen.header("authorization").unwrap_or_default(),
            ));
        }
        let wanted = (*self.wanted.lock().unwrap()).filter(|_| seen.tool() == "act")?;
        let challenge =
            format!(r#"Bearer error="insufficient_scope", scope="{wanted}", resource_metadata="{metadata}""#);
        Some(Reply::status(403, "{}").with("www-authenticate", challenge))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_told_who_logs_in_and_a_login_is_all_it_takes() {
    let guarded = Guarded::start().await;
    let server = guarded.server();
    let refusal = server.open(None).await.unwrap_err();
    insta::assert_snapshot!(refusal.to_text());
    // Nothing is held against the server: the next call tries again.
    assert_eq!(server.open(None).await.unwrap_err().to_text(), refusal.to_text());
    // Whoever only looks is told too, in another process as well.
    let other = guarded.server();
    assert!(other.needs_login());
    let status = other.status();
    let told = status.diagnostics.iter().find_map(|told| told.next.clone());
    assert_eq!(told.as_deref(), Some("pentad connect site --login"));

    let (result, asked) = guarded.log_in().await;
    assert_eq!(
        result,
        LoginResult {
            scopes: vec!["look".to_owned()],
            expires_in: Some(3_600),
            renewable: true
        }
    );
    assert_eq!(asked["client_id"], "registered");
    assert_eq!(asked["code_challenge_method"], "S256");
    assert_eq!(asked["resource"], guarded.site.url());
    assert!(!guarded.server().needs_login());
    assert_eq!(text(&call(&server, "look").await.unwrap()), "look \"x\"");
    assert!(!server.needs_login());
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_token_is_renewed_and_a_rejected_renewal_needs_a_person() {
    let guarded = Guarded::start().await;
    guarded.log_in().await;
    let server = guarded.server();
    call(&server, "look").await.unwrap();
    guarded.revoke();
    // `act` is not known to be safe: it was rejected, not acted upon, and is sent again with the new token.
    call(&server, "act").await.unwrap();
    let kept = guarded.tokens.load("site").await.unwrap().unwrap();
    assert_eq!(kept.access_token.as_deref(), Some("canary-access-3"));
    assert_eq!(kept.refresh_token.as_deref(), Some("canary-refresh-3"));
    assert_eq!(kept.client_secret.as_deref(), Some("canary-client"));
    *guarded.renews.lock().unwrap() = false;
    guarded.revoke();
    let failure = call(&server, "act").await.unwrap_err();
    insta::assert_snapshot!(words(&guarded.site, &failure));
    guarded.log_in().await;
    call(&server, "act").await.unwrap();
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_does_not_reach_is_widened_and_keeps_what_it_had() {
    let guarded = Guarded::start().await;
    guarded.log_in().await;
    let server = guarded.server();
    *guarded.wanted.lock().unwrap() = Some("write:all");
    let failure = call(&server, "act").await.unwrap_err();
    insta::assert_snapshot!(words(&guarded.site, &failure));
    assert!(guarded.server().needs_login());
    let (_, asked) = guarded.log_in().await;
    assert_eq!(asked["scope"], "look write:all");
    *guarded.wanted.lock().unwrap() = None;
    call(&server, "act").await.unwrap();
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_is_sent_to_the_server_that_it_is_for_and_to_no_other() {
    let guarded = Guarded::start().await;
    guarded.log_in().await;
    let elsewhere = Site::start(Kind::Modern).await;
    let mut moved = guarded.config();
    moved.reach = Reach::Url(Endpoint::new(&elsewhere.url(), &Default::default()).unwrap()).into();
    let server = guarded.server_of(moved);
    call(&server, "look").await.unwrap();
    assert!(
        elsewhere
            .seen()
            .iter()
            .all(|seen| seen.header("authorization").is_none())
    );
    end(&server).await;
    // Nor where the server itself redirects to.
    let target = elsewhere.url();
    guarded.site.answer(move |seen| {
        (seen.target == "/mcp").then(|| Reply::status(307, "").with("location", target.clone()))
    });
    let redirected = guarded.server();
    redirected.open(None).await.unwrap_err();
    assert!(
        elsewhere
            .seen()
            .iter()
            .all(|seen| seen.header("authorization").is_none())
    );
    end(&redirected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_says_no_or_comes_back_wrong_is_told() {
    let guarded = Guarded::start().await;
    let told = async |back: &str| {
        let login = guarded.begin().await.unwrap();
        login
            .finish(&format!("{REDIRECT}?{back}"))
            .await
            .unwrap_err()
            .to_string()
    };
    let denied = told("error=access_denied&error_description=not%20today%1b%5b31m").await;
    let forged = told("code=canary-code&state=forged").await;
    let empty = told("state=x").await;
    insta::assert_snapshot!([denied, forged, empty].join("\n"));
    assert_eq!(guarded.tokens.load("site").await.unwrap(), None);
    let mut own = guarded.config();
    let headers = [("Authorization".to_owned(), "Bearer canary".to_owned())].into();
    own.reach = Reach::Url(Endpoint::new(&guarded.site.url(), &headers).unwrap()).into();
    let runtime = runtime(&guarded.folder);
    let begun = Login::begin(
        &own,
        b"",
        &runtime.cache_dir,
        Arc::new(guarded.tokens.clone()),
        REDIRECT,
    )
    .await;
    assert!(matches!(begun, Err(LoginError::OwnCredentials(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_tokens_appear_nowhere_but_in_the_store() {
    let guarded = Guarded::start().await;
    let server = guarded.server();
    let mut shown = format!("{:?}\n", server.open(None).await);
    let (result, _) = guarded.log_in().await;
    shown.push_str(&format!("{result:?}\n{:?}\n", guarded.tokens.load("site").await));
    let mut echo = tool_call(document(&server, "act").await, "echo");
    echo.time_limit = Some(std::time::Duration::from_secs(20));
    let echoed = words(&guarded.site, &server.call(echo).await.unwrap_err());
    assert!(echoed.contains("[secret]"), "{echoed}");
    shown.push_str(&echoed);
    guarded.revoke();
    *guarded.renews.lock().unwrap() = false;
    shown.push_str(&words(&guarded.site, &call(&server, "act").await.unwrap_err()));
    shown.push_str(&format!("{:?}\n{:?}\n", guarded.config(), server.status()));
    end(&server).await;
    for entry in std::fs::read_dir(guarded.folder.path().join("cache")).unwrap() {
        shown.push_str(&std::fs::read_to_string(entry.unwrap().path()).unwrap());
    }
    let found: Vec<&str> = shown.lines().filter(|line| line.contains("canary")).collect();
    assert!(found.is_empty(), "{found:#?}");
    let kept: Vec<Value> = guarded.site.seen().into_iter().map(|seen| seen.body).collect();
    assert!(
        kept.iter()
            .all(|body| !body.to_string().contains("canary-access"))
    );
}
