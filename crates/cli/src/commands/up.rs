use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use pentad_keeper::KeeperLock;
use pentad_model::Name;
use pentad_model::invocation::Workspace;
use pentad_web::{Access, Face, Tokens, listen, serve};
use tokio_util::sync::CancellationToken;

use crate::args::Globals;
use crate::failure::usage;
use crate::house::{House, end_on_signal};
use crate::invoke::block_on;
use crate::shell::prepared_home;
use crate::terminal::Terminal;

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
/// machine only unless config.toml says otherwise.
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
        let home = prepared_home(globals)?;
        let _lock = KeeperLock::take(&home)?;
        block_on(async {
            let house = House::open_long(globals).await?;
            let result = self.serve(&house, terminal).await;
            house.close().await;
            result.map(|()| ExitCode::SUCCESS)
        })?
    }

    async fn serve(self, house: &House, terminal: &Terminal) -> anyhow::Result<()> {
        let http = &house.config.http;
        let address = SocketAddr::new(self.bind.unwrap_or(http.bind), self.port.unwrap_or(http.port));
        if self.insecure_loopback && !address.ip().is_loopback() {
            return Err(usage(
                "--insecure-loopback serves loopback only; leave --bind out",
            ));
        }
        if !address.ip().is_loopback() && http.token.is_none() {
            return Err(usage(format!(
                "{} is reachable from other machines and no token is configured\nNext: add token = \"${{secret:http}}\" to [http] in config.toml and run pentad secret set http, or bind 127.0.0.1",
                address.ip()
            )));
        }
        let mut clients: Vec<Name> = house.config.clients.keys().cloned().chain(self.client).collect();
        clients.sort();
        clients.dedup();
        let mut tokens = Tokens::generate(clients)?;
        if let Some(template) = &http.token {
            let value = template.resolve(&house.lookup())?;
            tokens.add_person(value.reveal())?;
        }
        let access = if self.insecure_loopback {
            terminal.notice(
                "WARNING: --insecure-loopback: every process on this machine may act here without a token.",
            );
            Access::InsecureLoopback
        } else {
            Access::Tokens(tokens)
        };
        let listener = listen(address).await?;
        let local = listener.local_addr()?;
        let printed = ready(&access, local, terminal);
        if !terminal.stream(&printed) {
            anyhow::bail!("nobody reads the ready lines");
        }
        let face = self::face(house, access, http.hosts.clone());
        let shutdown = CancellationToken::new();
        let signals = tokio::spawn(end_on_signal(shutdown.clone()));
        let served = serve(listener, face, shutdown).await;
        signals.abort();
        Ok(served?)
    }
}

fn face(house: &House, access: Access, hosts: Vec<String>) -> Face {
    let limits = &house.config.limits;
    let projects = house.config.projects.iter().filter_map(|(path, project)| {
        let name = project.workspace.clone()?;
        let workspace = Workspace {
            cwd: path.clone(),
            project_root: Some(path.clone()),
            trusted: project.trusted_hash.is_some(),
        };
        Some((name, workspace))
    });
    Face {
        verbs: house.verbs.clone(),
        store: house.store.clone(),
        attachments: house.attachments.clone(),
        access,
        hosts,
        workspace: house.workspace.clone(),
        workspaces: projects.collect(),
        uploads: house.home.cache(),
        body_bytes: limits.body_bytes,
        attachment_bytes: limits.attachment_bytes,
        heartbeat: Duration::from_secs(15),
        drain: Duration::from_secs(5),
    }
}

fn ready(access: &Access, local: SocketAddr, terminal: &Terminal) -> String {
    let url = format!("http://{local}");
    let mcp = format!("{url}/mcp");
    let tokens: Vec<(String, String)> = match access {
        Access::InsecureLoopback => Vec::new(),
        Access::Tokens(tokens) => tokens.printable(),
    };
    if terminal.json {
        let map: serde_json::Map<String, serde_json::Value> = tokens
            .into_iter()
            .map(|(kind, token)| (kind, token.into()))
            .collect();
        return format!(
            "{}\n",
            serde_json::json!({"ready": true, "url": url, "mcp": mcp, "tokens": map})
        );
    }
    let mut text = format!("pentad is ready at {url}\nMCP is at {mcp}\n");
    for (kind, token) in &tokens {
        text.push_str(&format!("token of {kind}: {token}\n"));
    }
    let header = example_token(&tokens)
        .map(|token| format!(" --header 'Authorization: Bearer {token}'"))
        .unwrap_or_default();
    let program =
        std::env::current_exe().map_or_else(|_| "pentad".to_owned(), |path| path.display().to_string());
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
