//! Starting a server that failed, because a person asks.

use std::process::ExitCode;

use pentad_model::Refusal;
use serde_json::json;

use crate::args::Globals;
use crate::house::House;
use crate::invoke::block_on;
use crate::render::Rendered;
use crate::terminal::Terminal;

/// Forgets how often a server has failed, starts it, and prints what came of that.
pub fn open(globals: &Globals, name: &str, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let opened = block_on(async {
        let house = House::open(globals).await?;
        let opened = house.desk.open_again(name, None).await;
        house.close().await;
        anyhow::Ok(opened)
    })??;
    let rendered = match opened {
        Ok(status) if terminal.json => {
            let value =
                json!({"status": "ok", "server": name, "tools": status.tools, "copies": status.copies});
            Rendered::data(format!("{value}\n"), 0)
        }
        Ok(status) => {
            let tools = match status.tools {
                1 => "1 tool".to_owned(),
                tools => format!("{tools} tools"),
            };
            Rendered {
                out: format!("Started {name}: {tools}.\n"),
                err: format!("Next: pentad tools list --source {name} shows them\n"),
                code: 0,
            }
        }
        Err(refusal) => failed(name, refusal, terminal),
    };
    Ok(terminal.emit(&rendered))
}

fn failed(name: &str, refusal: Refusal, terminal: &Terminal) -> Rendered {
    let refusal = match refusal.next.is_empty() {
        true => refusal.next_step(format!("mend what is wrong, then pentad connect {name} --again")),
        false => refusal,
    };
    if terminal.json {
        let value = json!({"status": "failed", "server": name, "refusal": refusal});
        return Rendered::data(crate::render::escaped(&value.to_string()) + "\n", 1);
    }
    let said = terminal.foreign_err(&refusal.to_text());
    Rendered::notice(format!("error: {said}\n"), 1)
}
