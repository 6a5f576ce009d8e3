//! `mcp` of OpenCode, in the form of its first and of its second version.

use super::fields::Fields;
use super::{ForeignServer, Launch, Reading, Stays};

pub fn read(mut fields: Fields<'_>, reading: &Reading<'_>) -> Result<ForeignServer, Stays> {
    let launch = match fields.text("type")? {
        Some("local") => {
            let words = match fields.take("command") {
                Some(serde_json::Value::String(command)) => vec![command.clone()],
                _ => fields.texts("command")?,
            };
            let (program, args) = words
                .split_first()
                .filter(|(program, _)| !program.trim().is_empty())
                .ok_or_else(|| Stays::because("its command is empty"))?;
            Launch::Command {
                program: reading.text(program)?,
                args: reading.texts(args)?,
                env: reading.pairs(fields.pairs("environment")?)?,
                cwd: reading.cwd(fields.text("cwd")?)?,
            }
        }
        Some("remote") => {
            let url = fields
                .text("url")?
                .ok_or_else(|| Stays::because("it has no url"))?;
            Launch::Url {
                url: reading.text(url)?,
                headers: reading.pairs(fields.pairs("headers")?)?,
            }
        }
        Some(_) => return Err(Stays::because("its type is neither local nor remote")),
        None => return Err(Stays::because("it only switches a server of elsewhere on or off")),
    };
    let disabled = fields.flag("disabled")? == Some(true) || fields.flag("enabled")? == Some(false);
    fields.ignore(&["enabled"]);
    Ok(ForeignServer {
        launch,
        disabled,
        start_timeout: fields.period("timeout", 0.001),
        call_timeout: None,
        left_out: fields.left(),
    })
}
