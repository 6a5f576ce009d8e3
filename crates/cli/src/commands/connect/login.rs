//! Logging in at a server, as a person at this machine.

use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use pentad_keeper::{Config, Home, Lookup, SecretName, SecretValue, Secrets};
use pentad_mcp::{Login, LoginError, LoginResult, LoopbackRedirect, Reach, ServerConfig, TokenStore as _};
use serde_json::json;

use super::device;
use crate::failure::usage;
use crate::invoke::block_on;
use crate::render::Rendered;
use crate::terminal::Terminal;
use crate::wire::{HomeTokens, Variables, default_limits, home_key, server_config};

/// How long a browser is waited for.
const BROWSER_WAIT: Duration = Duration::from_secs(300);

/// How a person wants to log in.
pub struct Wanted {
    /// The way.
    pub way: Way,
    /// How long to wait, if not for the usual time of the way.
    pub wait: Option<Duration>,
}

/// The ways to log in.
pub enum Way {
    /// With a browser on this machine.
    Browser {
        /// Whether to open the page.
        open: bool,
    },
    /// With a code that is typed on another device.
    Device,
}

/// Logs in at a configured server.
pub fn log_in(home: &Home, name: &str, wanted: &Wanted, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let server = configured(home, name)?;
    let result = block_on(go(home, &server, wanted, terminal))??;
    let rendered = match terminal.json {
        true => Rendered::data(
            format!(
                "{}\n",
                json!({"status": "ok", "server": name, "scopes": result.scopes, "expiresIn": result.expires_in, "renewable": result.renewable})
            ),
            0,
        ),
        false => Rendered {
            out: format!("Logged in at {name}{}.\n", described(&result)),
            err: format!("Next: pentad tools list --source {name} shows its tools\n"),
            code: 0,
        },
    };
    Ok(terminal.emit(&rendered))
}

/// Forgets a login.
pub fn log_out(home: &Home, name: &str, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let removed = block_on(HomeTokens::of(home).remove(name))??;
    let code = u8::from(!removed);
    let rendered = match (terminal.json, removed) {
        (true, _) => Rendered::data(format!("{}\n", json!({"server": name, "removed": removed})), code),
        (false, true) => Rendered {
            out: format!("Forgot the login at {name}.\n"),
            err: "Next: the server itself may still know it; its account page ends it there too\n".to_owned(),
            code,
        },
        (false, false) => Rendered::notice(
            format!("error: there is no login at '{name}'\nNext: pentad connect {name} --login\n"),
            code,
        ),
    };
    Ok(terminal.emit(&rendered))
}

fn configured(home: &Home, name: &str) -> anyhow::Result<ServerConfig> {
    let config = Config::load(home)?;
    let Some(entry) = config.servers.get(name) else {
        let names: Vec<&str> = config.servers.keys().map(String::as_str).collect();
        let next = match names.is_empty() {
            true => format!("pentad connect {name} --url https://… --login"),
            false => format!("name one of {}", names.join(", ")),
        };
        return Err(usage(format!(
            "{} has no server '{name}'\nNext: {next}",
            home.config_file().display()
        )));
    };
    let lookup = References(Secrets::of(home));
    let variables = Variables::of_process(config.env.names.clone());
    server_config(name, entry, &default_limits(&config), &lookup, &variables)
        .map_err(|why| anyhow::anyhow!("servers.{name}: {why}"))
}

async fn go(
    home: &Home,
    server: &ServerConfig,
    wanted: &Wanted,
    terminal: &Terminal,
) -> anyhow::Result<LoginResult> {
    let port = match server.reach.from_here() {
        Ok(Reach::Url(endpoint)) => endpoint.login.redirect_port,
        // The login itself says so.
        Ok(Reach::Command(_)) | Err(_) => None,
    };
    let Way::Browser { open } = wanted.way else {
        let login = device::begin(home, server).await??;
        return device::finish(login, server, wanted.wait, terminal).await;
    };
    let no_redirect = match LoopbackRedirect::bind(port).await {
        Ok(redirect) => {
            let wait = wanted.wait.unwrap_or(BROWSER_WAIT);
            return in_browser(home, server, redirect, open, wait, terminal).await;
        }
        Err(error) => error,
    };
    // No browser could find its way back; a code needs none.
    let login = match device::begin(home, server).await? {
        Ok(login) => login,
        Err(LoginError::NoDevice(_) | LoginError::NoDeviceGrant { .. }) => return Err(no_redirect.into()),
        Err(error) => return Err(error.into()),
    };
    let notice = format!("warning: {no_redirect}; the login goes by a code instead\n");
    let _ = terminal.emit(&Rendered::notice(notice, 0));
    device::finish(login, server, wanted.wait, terminal).await
}

async fn in_browser(
    home: &Home,
    server: &ServerConfig,
    redirect: LoopbackRedirect,
    may_open: bool,
    wait: Duration,
    terminal: &Terminal,
) -> anyhow::Result<LoginResult> {
    let key = home_key(home).context("read the key of this home")?;
    let tokens = Arc::new(HomeTokens::of(home));
    let login = Login::begin(server, &key, &home.cache(), tokens, &redirect.uri()).await?;
    let page = login.authorization_url();
    let opened = may_open && terminal.err_is_terminal && open(page);
    let told = match (terminal.json, opened) {
        (true, _) => Rendered::data(
            format!(
                "{}\n",
                json!({"status": "waiting", "server": server.name, "open": page})
            ),
            0,
        ),
        (false, true) => Rendered::notice(format!("Your browser opens this page:\n  {page}\n"), 0),
        (false, false) => Rendered::notice(
            format!("Open this page in a browser on this machine:\n  {page}\n"),
            0,
        ),
    };
    // The exit code is that of the end, not of this.
    let _ = terminal.emit(&told);
    let callback = tokio::select! {
        callback = redirect.wait(wait) => callback.with_context(|| {
            format!("nothing was changed; pentad connect {} --login begins again", server.name)
        })?,
        _ = tokio::signal::ctrl_c() => anyhow::bail!("the login was interrupted; nothing was changed"),
    };
    Ok(login.finish(&callback).await?)
}

/// Opens a page in the person's browser, if this machine has a way to.
fn open(page: &str) -> bool {
    let program = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let opened = Command::new(program)
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    opened.is_ok()
}

fn described(result: &LoginResult) -> String {
    let mut words = String::new();
    if !result.scopes.is_empty() {
        words.push_str(&format!(" for {}", result.scopes.join(" ")));
    }
    if let (false, Some(seconds)) = (result.renewable, result.expires_in) {
        words.push_str(&format!("; it ends in {} min", seconds / 60));
    }
    words
}

/// Looks references of an entry up. Commands run through the spawner only, which a login does not start.
struct References(Secrets);

impl Lookup for References {
    fn secret(&self, name: &SecretName) -> Option<SecretValue> {
        self.0.get(name).ok().flatten()
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn command(&self, _command: &str) -> Result<String, String> {
        Err("a login runs no commands; use ${secret:NAME} in its place".to_owned())
    }
}
