//! The form that Claude Code, Claude Desktop, Cursor, Windsurf and Visual Studio Code share, with their differences.

use super::fields::Fields;
use super::{ForeignServer, Launch, Reading, Stays};
use crate::client::Client;
use crate::text::Text;

pub fn read(mut fields: Fields<'_>, reading: &Reading<'_>) -> Result<ForeignServer, Stays> {
    let kind = fields
        .text("type")?
        .or(fields.text("transport")?)
        .unwrap_or_default();
    fields.refuse("envFile", "it takes variables from an envFile")?;
    fields.refuse("headersHelper", "a headersHelper makes its headers")?;
    fields.refuse("sandboxEnabled", "the client runs it in a sandbox")?;
    let command = fields.text("command")?;
    let url = match fields.text("url")? {
        Some(url) => Some(url),
        None => fields.text("serverUrl")?,
    };
    fields.take("serverUrl");
    let launch = match (kind, command, url) {
        ("sse", _, _) => return Err(Stays::because("it uses the old HTTP+SSE transport")),
        ("ws" | "websocket", _, _) => return Err(Stays::because("it uses WebSocket")),
        ("sdk" | "sse-ide" | "ws-ide" | "claudeai-proxy", _, _) => {
            return Err(Stays::because("it lives inside the client"));
        }
        (_, Some(command), None) => Launch::Command {
            program: program(command, reading)?,
            args: reading.texts(&fields.texts("args")?)?,
            env: reading.pairs(fields.pairs("env")?)?,
            cwd: reading.cwd(fields.text("cwd")?)?,
        },
        (_, None, Some(url)) => {
            fields.ignore(&["cwd"]);
            Launch::Url {
                url: reading.text(url)?,
                headers: reading.pairs(fields.pairs("headers")?)?,
            }
        }
        (_, Some(_), Some(_)) => return Err(Stays::because("it has both a command and a url")),
        (_, None, None) => return Err(Stays::because("it has neither a command nor a url")),
    };
    let disabled = fields.flag("disabled")? == Some(true) || fields.flag("enabled")? == Some(false);
    fields.ignore(&["enabled", "name", "description", "gallery", "version", "$schema"]);
    let call_timeout = match reading.client {
        Some(Client::ClaudeCode) => fields.period("timeout", 0.001),
        _ => None,
    };
    Ok(ForeignServer {
        launch,
        disabled,
        start_timeout: None,
        call_timeout,
        left_out: fields.left(),
    })
}

fn program(command: &str, reading: &Reading<'_>) -> Result<Text, Stays> {
    if command.trim().is_empty() {
        return Err(Stays::because("its command is empty"));
    }
    let text = reading.text(command)?;
    // A program that is named from its folder is found from there only.
    match (text.as_literal(), reading.meaning.folder) {
        (Some(path), Some(folder)) if path.contains('/') && !path.starts_with(['/', '~']) => Ok(
            Text::literal(format!("{folder}/{}", path.trim_start_matches("./"))),
        ),
        _ => Ok(text),
    }
}
