//! `[mcp_servers.NAME]` of Codex.

use serde_json::Value;

use super::fields::Fields;
use super::{ForeignServer, Launch, Reading, Stays};
use crate::text::{Text, Word};

pub fn read(mut fields: Fields<'_>, reading: &Reading<'_>) -> Result<ForeignServer, Stays> {
    if fields
        .text("experimental_environment")?
        .is_some_and(|place| place != "local")
    {
        return Err(Stays::because("the client runs it somewhere else"));
    }
    let launch = match (fields.text("command")?, fields.text("url")?) {
        (Some(command), None) if !command.trim().is_empty() => {
            let mut env = reading.pairs(fields.pairs("env")?)?;
            for name in passed_on(&mut fields)? {
                if env.iter().all(|(known, _)| *known != name) {
                    env.push((name.clone(), variable(name)));
                }
            }
            Launch::Command {
                program: reading.text(command)?,
                args: reading.texts(&fields.texts("args")?)?,
                env,
                cwd: reading.cwd(fields.text("cwd")?)?,
            }
        }
        (None, Some(url)) => Launch::Url {
            url: reading.text(url)?,
            headers: headers(&mut fields, reading)?,
        },
        (Some(_), Some(_)) => return Err(Stays::because("it has both a command and a url")),
        (Some(_) | None, None) => return Err(Stays::because("it has neither a command nor a url")),
    };
    fields.ignore(&["name", "required", "supports_parallel_tool_calls"]);
    let start_timeout = fields
        .period("startup_timeout_sec", 1.0)
        .or_else(|| fields.period("startup_timeout_ms", 0.001));
    Ok(ForeignServer {
        launch,
        disabled: fields.flag("enabled")? == Some(false),
        start_timeout,
        call_timeout: fields.period("tool_timeout_sec", 1.0),
        left_out: fields.left(),
    })
}

/// Reads `env_vars`: names, or maps with a name and a source.
fn passed_on(fields: &mut Fields<'_>) -> Result<Vec<String>, Stays> {
    let Some(value) = fields.take("env_vars") else {
        return Ok(Vec::new());
    };
    let wrong = || Stays::because("its env_vars is not a list of names");
    let items = value.as_array().ok_or_else(wrong)?;
    let name = |item: &Value| {
        if item.get("source").and_then(Value::as_str) == Some("remote") {
            return Err(Stays::because("it takes a variable from another machine"));
        }
        let name = item.as_str().or_else(|| item.get("name")?.as_str());
        name.map(str::to_owned).ok_or_else(wrong)
    };
    items.iter().map(name).collect()
}

fn headers(fields: &mut Fields<'_>, reading: &Reading<'_>) -> Result<Vec<(String, Text)>, Stays> {
    let mut headers = reading.pairs(fields.pairs("http_headers")?)?;
    for (header, name) in fields.pairs("env_http_headers")? {
        headers.push((header, variable(name)));
    }
    if let Some(name) = fields.text("bearer_token_env_var")? {
        let value = Text(vec![
            Word::Literal("Bearer ".to_owned()),
            Word::Variable(name.to_owned()),
        ]);
        headers.push(("Authorization".to_owned(), value));
    }
    Ok(headers)
}

fn variable(name: String) -> Text {
    Text(vec![Word::Variable(name)])
}
