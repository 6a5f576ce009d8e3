//! A person with a browser who always says yes.

use std::sync::Arc;

use pentad_mcp::{Login, ServerConfig, ServerRuntime};
use reqwest::header::LOCATION;
use reqwest::redirect::Policy;

/// Where the suite's authorization server sends the browser back to; nobody has to listen there.
const REDIRECT: &str = "http://localhost:3000/callback";

/// Logs in at a server.
pub async fn log_in(config: &ServerConfig, runtime: &ServerRuntime) -> Result<(), String> {
    let login = Login::begin(
        config,
        &runtime.env_key,
        &runtime.cache_dir,
        Arc::clone(&runtime.tokens),
        REDIRECT,
    )
    .await
    .map_err(|error| error.to_string())?;
    let browser = reqwest::Client::builder()
        .redirect(Policy::none())
        .build()
        .map_err(|error| error.to_string())?;
    let page = browser
        .get(login.authorization_url())
        .send()
        .await
        .map_err(|error| error.to_string())?;
    let target = page
        .headers()
        .get(LOCATION)
        .and_then(|target| target.to_str().ok())
        .ok_or("the authorization server sends the browser nowhere")?;
    login
        .finish(target)
        .await
        .map(drop)
        .map_err(|error| error.to_string())
}
