//! `extensions:` of goose.

use super::fields::Fields;
use super::{ForeignServer, Launch, Reading, Stays};
use crate::text::{Text, Word};

pub fn read(mut fields: Fields<'_>, reading: &Reading<'_>) -> Result<ForeignServer, Stays> {
    let kind = fields.text("type")?.unwrap_or_default();
    let env = |fields: &mut Fields<'_>| -> Result<Vec<(String, Text)>, Stays> {
        let mut env = reading.pairs(fields.pairs("envs")?)?;
        // Values of these names lie in the keyring of the system, where only goose looks.
        for name in fields.texts("env_keys")? {
            if env.iter().all(|(known, _)| *known != name) {
                env.push((name.clone(), Text(vec![Word::Asked(name)])));
            }
        }
        Ok(env)
    };
    let launch = match kind {
        "stdio" => Launch::Command {
            program: match fields.text("cmd")?.filter(|cmd| !cmd.trim().is_empty()) {
                Some(cmd) => reading.text(cmd)?,
                None => return Err(Stays::because("it has no cmd")),
            },
            args: reading.texts(&fields.texts("args")?)?,
            env: env(&mut fields)?,
            cwd: reading.cwd(fields.text("cwd")?)?,
        },
        "streamable_http" => {
            let known = env(&mut fields)?;
            let uri = fields
                .text("uri")?
                .ok_or_else(|| Stays::because("it has no uri"))?;
            Launch::Url {
                url: reading.text(uri)?,
                headers: fields
                    .pairs("headers")?
                    .into_iter()
                    .map(|(name, raw)| (name, with_variables(&raw, &known)))
                    .collect(),
            }
        }
        "sse" => return Err(Stays::because("it uses the old HTTP+SSE transport")),
        "builtin" | "platform" => return Err(Stays::because("it is part of goose")),
        "frontend" | "inline_python" => {
            return Err(Stays::because(format!("its kind {kind} is goose's own")));
        }
        _ => return Err(Stays::because("its kind is not known")),
    };
    let disabled = fields.flag("enabled")? == Some(false);
    fields.ignore(&["name", "display_name", "description", "bundled"]);
    Ok(ForeignServer {
        launch,
        disabled,
        start_timeout: None,
        call_timeout: fields.period("timeout", 1.0),
        left_out: fields.left(),
    })
}

/// Reads `${NAME}` and `$NAME` of a header: first the extension's own variables, then the environment.
fn with_variables(raw: &str, known: &[(String, Text)]) -> Text {
    let mut words = Vec::new();
    let mut rest = raw;
    while let Some((before, after)) = rest.split_once('$') {
        words.push(Word::Literal(before.to_owned()));
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let braced = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let bare = || {
            let end = after.find(|c| !legal(c)).unwrap_or(after.len());
            after.split_at_checked(end)
        };
        match braced.or_else(bare) {
            Some((name, tail)) if pentad_keeper::template::is_variable_name(name) => {
                match known.iter().find(|(known, _)| known == name) {
                    Some((_, text)) => words.extend(text.0.clone()),
                    None => words.push(Word::Variable(name.to_owned())),
                }
                rest = tail;
            }
            _ => {
                words.push(Word::Literal("$".to_owned()));
                rest = after;
            }
        }
    }
    words.push(Word::Literal(rest.to_owned()));
    words.retain(|word| !matches!(word, Word::Literal(text) if text.is_empty()));
    Text(words)
}
