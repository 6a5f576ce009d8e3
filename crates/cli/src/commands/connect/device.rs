//! Logging in at a server with a code that a person types on another device.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use pentad_keeper::Home;
use pentad_mcp::{DeviceLogin, DevicePrompt, LoginError, LoginResult, ServerConfig};
use serde_json::json;

use crate::render::Rendered;
use crate::terminal::Terminal;
use crate::wire::{HomeTokens, home_key};

/// Asks for a code. The inner failure is that of the login, the outer one that of the home.
pub async fn begin(home: &Home, server: &ServerConfig) -> anyhow::Result<Result<DeviceLogin, LoginError>> {
    let key = home_key(home).context("read the key of this home")?;
    let tokens = Arc::new(HomeTokens::of(home));
    Ok(DeviceLogin::begin(server, &key, &home.cache(), tokens).await)
}

/// Shows the code and waits for the person.
pub async fn finish(
    login: DeviceLogin,
    server: &ServerConfig,
    wait: Option<Duration>,
    terminal: &Terminal,
) -> anyhow::Result<LoginResult> {
    let prompt = login.prompt();
    let told = match terminal.json {
        true => Rendered::data(format!("{}\n", waiting(&server.name, prompt)), 0),
        false => Rendered::notice(instructions(prompt), 0),
    };
    // The exit code is that of the end, not of this.
    let _ = terminal.emit(&told);
    tokio::select! {
        result = login.finish(wait, tokio::time::sleep) => Ok(result?),
        _ = tokio::signal::ctrl_c() => anyhow::bail!("the login was interrupted; nothing was changed"),
    }
}

fn waiting(server: &str, prompt: &DevicePrompt) -> serde_json::Value {
    json!({
        "status": "waiting",
        "server": server,
        "open": prompt.page,
        "code": prompt.code,
        "openWithCode": prompt.page_with_code,
        "expiresIn": prompt.holds.as_secs(),
    })
}

fn instructions(prompt: &DevicePrompt) -> String {
    let mut words = format!(
        "Open this page on any device:\n  {}\nand type this code:\n  {}\n",
        prompt.page, prompt.code
    );
    if let Some(page) = &prompt.page_with_code {
        // Writing to a text cannot fail.
        let _ = write!(words, "Or open the page with the code in it:\n  {page}\n");
    }
    let seconds = prompt.holds.as_secs();
    let holds = match seconds {
        0..120 => format!("{seconds} s"),
        _ => format!("{} min", seconds / 60),
    };
    words + &format!("The code holds for {holds}; Ctrl-C ends the wait.\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_reads_where_to_type_what_and_until_when() {
        let with_link = DevicePrompt {
            page: "https://auth.example/device".to_owned(),
            code: "WDJB-MJHT".to_owned(),
            page_with_code: Some("https://auth.example/device?user_code=WDJB-MJHT".to_owned()),
            holds: Duration::from_secs(900),
        };
        let without = DevicePrompt {
            page_with_code: None,
            holds: Duration::from_secs(90),
            ..with_link.clone()
        };
        insta::assert_snapshot!(format!(
            "{}\n{}",
            instructions(&with_link),
            instructions(&without)
        ));
    }
}
