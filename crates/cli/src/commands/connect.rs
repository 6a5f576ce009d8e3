mod again;
mod device;
mod login;

use std::process::ExitCode;
use std::time::Duration;

use pentad_keeper::add_server;
use pentad_keeper::config::Share;
use pentad_keeper::edit::{NewLaunch, NewServer};
use pentad_keeper::template::{Origin, Template};

use crate::args::Globals;
use crate::failure::usage;
use crate::render::Rendered;
use crate::shell::{prepared_home, require_no_agent, require_person_at_terminal};
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  pentad connect files -- npx -y @modelcontextprotocol/server-filesystem ~/Documents
  pentad connect github --env GITHUB_TOKEN='${secret:github}' -- github-mcp-server stdio
  pentad connect browser --share thread -- npx -y @playwright/mcp
  pentad connect docs --url https://mcp.example.org/mcp
  pentad connect issues --url https://mcp.example.org/mcp --header 'X-Api-Key=${secret:issues}'
  pentad connect docs --login
  pentad connect docs --login --device
  pentad connect files --again";

/// Who shares one process of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Sharing {
    /// Everybody in this home
    Home,
    /// One process for each workspace
    Workspace,
    /// One process for each thread, for servers that keep state
    Thread,
}

/// Connect an MCP server
///
/// The server is started with the first call of one of its tools. Its tools are found by search, they never grow the
/// payload of a client. --cwd is the server's working directory. Values that are secret belong into the secret store: --env NAME='${secret:NAME}'.
///
/// A server with a url may want a person to log in: --login opens its page in a browser, waits, and keeps what comes of
/// it among the secrets of the home. --device shows a page and a code instead, for machines without a browser: the person
/// opens the page on any other device. --logout forgets the login.
///
/// A server that failed too often is not tried by itself any more. --again forgets its failures, starts it now, and prints
/// what came of that.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["url", "command", "login", "logout", "again"])))]
pub struct Args {
    /// The server's name: a-z 0-9 _ -
    pub name: String,
    /// A server that runs elsewhere
    #[arg(long, conflicts_with = "command")]
    pub url: Option<String>,
    /// A header for --url
    #[arg(long, value_name = "NAME=VALUE", requires = "url", conflicts_with = "command")]
    pub header: Vec<String>,
    /// Log in at the server, in a browser
    #[arg(long, conflicts_with_all = ["command", "logout"])]
    pub login: bool,
    /// Forget the login
    #[arg(long, conflicts_with_all = ["command", "url"])]
    pub logout: bool,
    /// Start a server that failed, now
    #[arg(long, conflicts_with_all = ["command", "url", "login", "logout", "share", "trust", "replace"])]
    pub again: bool,
    /// Print the page to log in, and open no browser
    #[arg(long, requires = "login")]
    pub no_browser: bool,
    /// Log in with a code that a person types on another device
    #[arg(long, requires = "login", conflicts_with = "no_browser")]
    pub device: bool,
    /// How long to wait for the login [default: 300; with --device, as long as the code holds]
    #[arg(long, value_name = "SECONDS", requires = "login", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub wait: Option<u64>,
    /// The program and its arguments, after --
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
    /// An environment variable of the server
    #[arg(long, value_name = "NAME=VALUE", requires = "command", conflicts_with = "url")]
    pub env: Vec<String>,
    /// Who shares one process
    #[arg(long, value_name = "WHO")]
    pub share: Option<Sharing>,
    /// Rely on the server's own word about which of its tools only read
    #[arg(long)]
    pub trust: bool,
    /// Replace a server of the same name
    #[arg(long)]
    pub replace: bool,
}

impl Args {
    pub fn run(self, globals: &Globals, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        require_no_agent("connecting a server")?;
        if self.trust {
            require_person_at_terminal("trusting a server")?;
        }
        if self.again {
            return again::open(globals, &self.name, terminal);
        }
        let home = prepared_home(globals)?;
        let name = self.name.clone();
        if self.logout {
            return login::log_out(&home, &name, terminal);
        }
        let wanted = self.login.then(|| login::Wanted {
            way: match self.device {
                true => login::Way::Device,
                false => login::Way::Browser {
                    open: !self.no_browser,
                },
            },
            wait: self.wait.map(Duration::from_secs),
        });
        if let (None, Some(wanted)) = (&self.url, &wanted) {
            return login::log_in(&home, &name, wanted, terminal);
        }
        let replace = self.replace;
        let mut server = self.server()?;
        if let (Some(cwd), NewLaunch::Command { .. }) = (&globals.cwd, &server.launch) {
            let cwd = std::path::absolute(cwd)?;
            server.cwd = Some(cwd.to_string_lossy().into_owned());
        }
        let notes = secret_notes(&server);
        add_server(&home, &name, &server, replace)?;
        if let Some(wanted) = wanted {
            return login::log_in(&home, &name, &wanted, terminal);
        }
        if terminal.json {
            let value = serde_json::json!({"status": "ok", "server": name, "config": home.config_file(), "notes": notes});
            return Ok(terminal.emit(&Rendered::data(format!("{value}\n"), 0)));
        }
        let mut err = String::new();
        for note in notes {
            err.push_str(&format!("warning: {note}\n"));
        }
        err.push_str(&format!(
            "Next: pentad tools list --source {name} starts it and shows its tools\n"
        ));
        let out = format!("Connected {name} in {}.\n", home.config_file().display());
        Ok(terminal.emit(&Rendered { out, err, code: 0 }))
    }

    fn server(self) -> anyhow::Result<NewServer> {
        let launch = match (self.url, self.command.split_first()) {
            (Some(url), _) => {
                if !(url.starts_with("https://") || url.starts_with("http://")) {
                    return Err(usage(format!(
                        "'{url}' is no URL; it begins with https:// or http://"
                    )));
                }
                NewLaunch::Url(url)
            }
            (None, Some((program, _))) if is_pentad(program) => {
                return Err(usage(
                    "Pentad cannot be connected to itself: its tools are here already\nNext: pentad mcp is what a client starts",
                ));
            }
            (None, Some((program, args))) => NewLaunch::Command {
                program: program.clone(),
                args: args.to_vec(),
            },
            (None, None) => return Err(usage("name a command after --, or --url")),
        };
        let env = self
            .env
            .iter()
            .map(|pair| env_pair(pair))
            .collect::<Result<_, _>>()?;
        let headers = self
            .header
            .iter()
            .map(|pair| header_pair(pair))
            .collect::<Result<_, _>>()?;
        Ok(NewServer {
            launch,
            env,
            headers,
            cwd: None,
            share: self.share.map(|share| match share {
                Sharing::Home => Share::Home,
                Sharing::Workspace => Share::Workspace,
                Sharing::Thread => Share::Thread,
            }),
            trust: self.trust,
        })
    }
}

/// Takes `NAME=VALUE`, and `NAME: VALUE` as people paste it.
fn header_pair(pair: &str) -> anyhow::Result<(String, String)> {
    let (name, value) = pair.split_once(['=', ':']).ok_or_else(|| {
        usage(format!(
            "--header takes NAME=VALUE; '{}' has no '='",
            pentad_model::text::excerpt(pair, 20)
        ))
    })?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn env_pair(pair: &str) -> anyhow::Result<(String, String)> {
    let (name, value) = pair.split_once('=').ok_or_else(|| {
        usage(format!(
            "--env takes NAME=VALUE; '{}' has no '='",
            pentad_model::text::excerpt(pair, 20)
        ))
    })?;
    if !pentad_keeper::template::is_variable_name(name) {
        return Err(usage(format!("'{name}' names no environment variable")));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Tells whether a program is this one, under its name or wherever it lies.
fn is_pentad(program: &str) -> bool {
    let path = std::path::Path::new(program);
    let same_file = || {
        let own = std::env::current_exe().and_then(std::fs::canonicalize).ok();
        own.is_some() && std::fs::canonicalize(path).ok() == own
    };
    path.file_name().is_some_and(|name| name == "pentad") || same_file()
}

/// Says which literal values look like secrets, by name or form; never the values.
fn secret_notes(server: &NewServer) -> Vec<String> {
    let mut notes = Vec::new();
    for (option, name, value) in server
        .env
        .iter()
        .map(|(name, value)| ("env", name, value))
        .chain(server.headers.iter().map(|(name, value)| ("header", name, value)))
    {
        let literal = Template::parse(value, Origin::OwnConfig).is_ok_and(|template| template.is_literal());
        if literal && !value.is_empty() && (is_secret_name(name) || looks_secret(value)) {
            let secret = name.to_ascii_lowercase().replace('_', "-");
            notes.push(format!(
                "{name} looks like a secret and stands readable in config.toml; pentad secret set {secret}, then connect again with --replace --{option} {name}='${{secret:{secret}}}'"
            ));
        }
    }
    if let NewLaunch::Command { args, .. } = &server.launch
        && args
            .iter()
            .any(|arg| looks_secret(arg.rsplit_once('=').map_or(arg.as_str(), |(_, value)| value)))
    {
        notes.push("an argument looks like a secret and stands readable in config.toml; use '${secret:NAME}' in its place".to_owned());
    }
    notes
}

fn is_secret_name(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    [
        "TOKEN",
        "SECRET",
        "PASSWORD",
        "PASSWD",
        "API_KEY",
        "APIKEY",
        "ACCESS_KEY",
        "PRIVATE_KEY",
        "CREDENTIAL",
        "AUTHORIZATION",
        "API-KEY",
    ]
    .iter()
    .any(|part| upper.contains(part))
        || upper.ends_with("_KEY")
        || upper.ends_with("_PAT")
}

/// Recognises keys by the prefixes that their issuers give them.
fn looks_secret(value: &str) -> bool {
    const PREFIXES: [&str; 12] = [
        "ghp_",
        "gho_",
        "ghs_",
        "github_pat_",
        "glpat-",
        "sk-",
        "xoxb-",
        "xoxp-",
        "AKIA",
        "AIza",
        "hf_",
        "npm_",
    ];
    value.len() >= 16 && PREFIXES.iter().any(|prefix| value.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;
    use crate::commands::Command;

    fn server(words: &[&str]) -> anyhow::Result<NewServer> {
        let cli = Cli::try_parse_from([&["pentad", "connect", "x"], words].concat())?;
        match cli.command {
            Command::Connect(args) => args.server(),
            _ => panic!("not connect"),
        }
    }

    #[test]
    fn the_command_stands_after_two_dashes() {
        let found = server(&[
            "--env", "A=b=c", "--share", "thread", "--", "npx", "-y", "--env", "x",
        ])
        .unwrap();
        assert_eq!(
            found.launch,
            NewLaunch::Command {
                program: "npx".to_owned(),
                args: vec!["-y".to_owned(), "--env".to_owned(), "x".to_owned()]
            }
        );
        assert_eq!(found.env, [("A".to_owned(), "b=c".to_owned())]);
        assert!(server(&[]).is_err());
        assert!(server(&["--url", "https://a.example", "--", "x"]).is_err());
        assert!(server(&["--url", "ftp://a.example"]).is_err());
        assert!(server(&["--env", "1=2", "--", "x"]).is_err());
        let url = server(&["--url", "https://a.example", "--header", "X-Key: ${secret:k}"]).unwrap();
        assert_eq!(url.headers, [("X-Key".to_owned(), "${secret:k}".to_owned())]);
        assert!(server(&["--header", "a=b", "--", "x"]).is_err());
        assert!(server(&["--login", "--", "x"]).is_err());
        assert!(server(&["--login", "--logout"]).is_err());
        assert!(server(&["--device"]).is_err());
        assert!(server(&["--again", "--", "x"]).is_err());
        assert!(server(&["--again", "--replace"]).is_err());
        assert!(server(&["--login", "--device", "--no-browser"]).is_err());
    }

    #[test]
    fn pentad_is_not_connected_to_itself() {
        for program in ["pentad", "/usr/local/bin/pentad"] {
            let error = server(&["--", program, "mcp"]).unwrap_err();
            assert!(error.to_string().contains("itself"), "{error}");
        }
        let own = std::env::current_exe().unwrap();
        assert!(server(&["--", own.to_str().unwrap()]).is_err());
    }

    #[test]
    fn literal_secrets_are_pointed_out_without_their_value() {
        let plain = server(&["--env", "HOST=a", "--env", "TOKEN=${secret:t}", "--", "x"]).unwrap();
        assert_eq!(secret_notes(&plain), Vec::<String>::new());
        let secret = server(&[
            "--env",
            "GITHUB_TOKEN=abc",
            "--env",
            "X=ghp_0123456789abcdef",
            "--",
            "x",
            "--key=sk-0123456789abcdef",
        ])
        .unwrap();
        let notes = secret_notes(&secret);
        assert_eq!(notes.len(), 3);
        assert!(notes[0].contains("${secret:github-token}"));
        assert!(!notes.concat().contains("0123456789") && !notes.concat().contains("abc"));
    }
}
