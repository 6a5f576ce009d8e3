use std::io::SeekFrom;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use pentad_keeper::attach::{HttpAsk, HttpReady};
use pentad_model::Name;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio_util::sync::CancellationToken;

use crate::args::Globals;
use crate::house::{House, end_on_signal};
use crate::invoke::block_on;
use crate::shell::require_no_agent;
use crate::terminal::Terminal;

/// How often the keeper's log is looked at.
const LOG_LOOK: Duration = Duration::from_millis(250);
/// The most that is shown of it at a time.
const LOG_BYTES: u64 = 64 * 1024;

const EXAMPLES: &str = "\
Examples:
  pentad up
  pentad up --client claude-code --client cursor
  pentad up --port 0 --json
  curl -H \"Authorization: Bearer $TOKEN\" -d '{\"verb\":\"read\",\"arguments\":{\"address\":\"~/tools/\"}}' \\
       -H 'Content-Type: application/json' http://127.0.0.1:7455/api/v1/invoke";

/// Serve HTTP in the foreground: MCP at /mcp, and the API
///
/// Prints where, and a token for a person and for each client; the tokens hold until it ends. It listens on this
/// machine only unless config.toml says otherwise. With a keeper running, that one serves, and its log is shown here.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The port; 0 takes any [default: 7455, or [http] port]
    #[arg(long)]
    pub port: Option<u16>,
    /// The address to listen at [default: 127.0.0.1, or [http] bind]
    #[arg(long)]
    pub bind: Option<IpAddr>,
    /// A client that gets a token of its own, besides those of config.toml
    #[arg(long, value_name = "NAME")]
    pub client: Vec<Name>,
    /// No tokens: everybody on this machine is a client. For conformance runs only
    #[arg(long, hide_short_help = true)]
    pub insecure_loopback: bool,
}

impl Args {
    pub fn run(self, globals: &Globals, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        // Its tokens speak for a person.
        require_no_agent("serving HTTP")?;
        block_on(async {
            let house = House::open_long(globals).await?;
            let result = self.serve(&house, terminal).await;
            house.close().await;
            result.map(|()| ExitCode::SUCCESS)
        })?
    }

    async fn serve(self, house: &House, terminal: &Terminal) -> anyhow::Result<()> {
        if self.insecure_loopback {
            terminal.notice(
                "WARNING: --insecure-loopback: every process on this machine may act here without a token.",
            );
        }
        let ask = HttpAsk {
            bind: self.bind,
            port: self.port,
            clients: self.client,
            insecure_loopback: self.insecure_loopback,
            workspace: house.workspace.clone(),
        };
        let ready = house.desk.serve_http(ask, None, house.closing()).await?;
        let program =
            std::env::current_exe().map_or_else(|_| "pentad".to_owned(), |path| path.display().to_string());
        if !terminal.stream(&self::ready(&ready, &program, terminal)) {
            anyhow::bail!("nobody reads the ready lines");
        }
        let asked = CancellationToken::new();
        let Some(keeper) = house.attached() else {
            end_on_signal(asked).await;
            return Ok(());
        };
        let pid = keeper.attach().await?;
        terminal.notice(&format!(
            "the keeper of this home (process {pid}) serves it; what it logs follows"
        ));
        tokio::select! {
            () = end_on_signal(asked) => Ok(()),
            () = keeper.gone() => anyhow::bail!("the keeper of this home (process {pid}) has ended"),
            () = follow(house.home.keeper_log(), *terminal) => Ok(()),
        }
    }
}

/// Shows what is appended to a log, for as long as it is awaited.
async fn follow(log: PathBuf, terminal: Terminal) {
    let mut position = tokio::fs::metadata(&log).await.map_or(0, |found| found.len());
    loop {
        tokio::time::sleep(LOG_LOOK).await;
        let length = tokio::fs::metadata(&log).await.map_or(0, |found| found.len());
        if length < position {
            position = 0;
        }
        if length > position
            && let Ok(text) = appended(&log, position).await
        {
            position += text.len() as u64;
            terminal.notice(terminal.foreign_err(&String::from_utf8_lossy(&text)).trim_end());
        }
    }
}

async fn appended(log: &Path, position: u64) -> std::io::Result<Vec<u8>> {
    let mut file = tokio::fs::File::open(log).await?;
    file.seek(SeekFrom::Start(position)).await?;
    let mut text = Vec::new();
    file.take(LOG_BYTES).read_to_end(&mut text).await?;
    Ok(text)
}

fn ready(ready: &HttpReady, program: &str, terminal: &Terminal) -> String {
    let HttpReady { url, tokens } = ready;
    let mcp = format!("{url}/mcp");
    if terminal.json {
        let map: serde_json::Map<String, serde_json::Value> = tokens
            .iter()
            .map(|(kind, token)| (kind.clone(), token.as_str().into()))
            .collect();
        return format!(
            "{}\n",
            serde_json::json!({"ready": true, "url": url, "mcp": mcp, "tokens": map})
        );
    }
    let mut text = format!("pentad is ready at {url}\nMCP is at {mcp}\n");
    for (kind, token) in tokens {
        text.push_str(&format!("token of {kind}: {token}\n"));
    }
    let header = example_token(tokens)
        .map(|token| format!(" --header 'Authorization: Bearer {token}'"))
        .unwrap_or_default();
    text.push_str(&format!(
        "\nConnect an MCP client over HTTP (?workspace=NAME, ?agent=NAME and ?thread=ID may follow the URL):\n  \
         claude mcp add --transport http pentad {mcp}{header}\n\
         or over standard input and output:\n  \
         claude mcp add pentad -- {program} mcp\n  \
         {{\"mcpServers\": {{\"pentad\": {{\"command\": \"{program}\", \"args\": [\"mcp\"]}}}}}}\n\
         Use HTTP with a token from above:\n  \
         curl -H 'Authorization: Bearer TOKEN' -H 'Content-Type: application/json' \\\n       \
         -d '{{\"verb\":\"read\",\"arguments\":{{\"address\":\"~/tools/\"}}}}' {url}/api/v1/invoke\n\
         Ctrl-C ends it, and everything that it started.\n"
    ));
    text
}

/// Returns the token for the example: that of the client which it names, else of any client, else of the person.
fn example_token(tokens: &[(String, String)]) -> Option<&str> {
    let of = |wanted: &dyn Fn(&str) -> bool| tokens.iter().find(|(kind, _)| wanted(kind));
    of(&|kind| kind == "claude-code")
        .or_else(|| of(&|kind| kind != "person"))
        .or_else(|| tokens.first())
        .map(|(_, token)| token.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tokens: &[(&str, &str)]) -> String {
        let own = |(kind, token): &(&str, &str)| ((*kind).to_owned(), (*token).to_owned());
        let http = HttpReady {
            url: "http://127.0.0.1:7455".to_owned(),
            tokens: tokens.iter().map(own).collect(),
        };
        ready(&http, "/bin/pentad", &Terminal::default())
    }

    #[test]
    fn the_ready_lines_say_how_to_connect() {
        insta::assert_snapshot!(of(&[
            ("person", "PPP"),
            ("claude-code", "CCC"),
            ("cursor", "RRR")
        ]));
    }

    #[test]
    fn the_example_takes_the_token_that_fits_best() {
        let header = |tokens: &[(&str, &str)]| {
            let text = of(tokens);
            let line = text
                .lines()
                .find(|line| line.contains("--transport http"))
                .unwrap()
                .to_owned();
            line.split_once("/mcp").unwrap().1.to_owned()
        };
        assert_eq!(
            header(&[("person", "P"), ("cursor", "R")]),
            " --header 'Authorization: Bearer R'"
        );
        assert_eq!(header(&[("person", "P")]), " --header 'Authorization: Bearer P'");
        assert_eq!(header(&[]), "");
    }
}
