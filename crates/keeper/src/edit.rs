//! Changing `config.toml` without losing what a person wrote: comments, order, blank lines.

use std::io;

use toml_edit::{Array, DocumentMut, Item, Table, value};

use crate::config::{Config, ConfigError, Share};
use crate::durable::replace_file;
use crate::home::Home;
use crate::lock::{WRITER_LIMIT, WriterLock};

/// Changes the configuration under its lock: reads it anew, applies `change`, checks the result, replaces the file.
///
/// `change` may refuse with a message and a next step; nothing is written then. A file that is broken before the
/// change is left as it is, and so is one that the change would break.
///
/// # Errors
/// Fails when the file cannot be read, understood or written, or when `change` refuses.
pub fn edit_config<T>(
    home: &Home,
    change: impl FnOnce(&mut DocumentMut) -> Result<T, EditRefused>,
) -> Result<T, ConfigError> {
    let file = home.config_file();
    let not_changed = |error: &io::Error| ConfigError::NotChanged {
        file: file.clone(),
        message: match error.kind() {
            io::ErrorKind::WouldBlock => "another process keeps it locked".to_owned(),
            _ => error.to_string(),
        },
        next: "free space or check permissions, then repeat".to_owned(),
    };
    let lock_path = home.state().join("config.lock");
    let _lock = WriterLock::take(&lock_path, WRITER_LIMIT).map_err(|error| not_changed(&error))?;
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(source) => return Err(ConfigError::Unreadable { file, source }),
    };
    Config::parse(&text, &file)?;
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        let message = error.message().to_owned();
        ConfigError::NotChanged {
            file: file.clone(),
            message,
            next: "repair the file".to_owned(),
        }
    })?;
    let result = change(&mut document).map_err(|refused| ConfigError::NotChanged {
        file: file.clone(),
        message: refused.message,
        next: refused.next,
    })?;
    let changed = document.to_string();
    Config::parse(&changed, &file).map_err(as_refusal)?;
    if changed != text {
        replace_file(&file, changed.as_bytes(), None).map_err(|error| not_changed(&error))?;
    }
    Ok(result)
}

/// A fault of the new text is no fault of the file, whose lines it would misname.
fn as_refusal(error: ConfigError) -> ConfigError {
    match error {
        ConfigError::Invalid {
            file,
            key,
            message,
            next,
            ..
        } => ConfigError::NotChanged {
            file,
            message: format!("{key}: {message}"),
            next,
        },
        other => other,
    }
}

/// Why a change was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditRefused {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub next: String,
}

/// How a new server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewLaunch {
    /// A program and its arguments.
    Command {
        /// The program.
        program: String,
        /// Its arguments.
        args: Vec<String>,
    },
    /// An endpoint.
    Url(String),
}

/// A server to be added; texts may carry `${…}` references.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewServer {
    /// How it is reached.
    pub launch: NewLaunch,
    /// Environment variables in the order given.
    pub env: Vec<(String, String)>,
    /// Headers for an endpoint, in the order given.
    pub headers: Vec<(String, String)>,
    /// The working directory.
    pub cwd: Option<String>,
    /// Who shares one process.
    pub share: Option<Share>,
    /// Whether the server's own hints are relied on.
    pub trust: bool,
}

/// Adds `[servers.NAME]`; an existing one is replaced only with `replace`.
///
/// # Errors
/// Refuses reserved and malformed names and names that are taken; fails as [`edit_config`] does.
pub fn add_server(home: &Home, name: &str, server: &NewServer, replace: bool) -> Result<(), ConfigError> {
    edit_config(home, |document| {
        if let Some(why) = crate::config::bad_server_name(name) {
            return Err(EditRefused {
                message: format!("'{name}' {why}"),
                next: "choose another name".to_owned(),
            });
        }
        let servers = servers_table(document)?;
        if servers.contains_key(name) && !replace {
            return Err(EditRefused {
                message: format!("there is a server '{name}' already"),
                next: format!("choose another name, or pentad disconnect {name} first"),
            });
        }
        servers.insert(name, Item::Table(server_table(server)));
        Ok(())
    })
}

/// Removes `[servers.NAME]` and tells whether it was there.
///
/// # Errors
/// Fails as [`edit_config`] does.
pub fn remove_server(home: &Home, name: &str) -> Result<bool, ConfigError> {
    edit_config(home, |document| {
        Ok(document
            .get_mut("servers")
            .and_then(Item::as_table_like_mut)
            .is_some_and(|servers| servers.remove(name).is_some()))
    })
}

fn servers_table(document: &mut DocumentMut) -> Result<&mut dyn toml_edit::TableLike, EditRefused> {
    let item = document.entry("servers").or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    item.as_table_like_mut().ok_or_else(|| EditRefused {
        message: "'servers' is not a table".to_owned(),
        next: "write servers as [servers.NAME] sections".to_owned(),
    })
}

fn server_table(server: &NewServer) -> Table {
    let mut table = Table::new();
    match &server.launch {
        NewLaunch::Command { program, args } => {
            table.insert("command", value(program.as_str()));
            if !args.is_empty() {
                table.insert("args", value(args.iter().map(String::as_str).collect::<Array>()));
            }
        }
        NewLaunch::Url(url) => {
            table.insert("url", value(url.as_str()));
        }
    }
    for (key, pairs) in [("env", &server.env), ("headers", &server.headers)] {
        if !pairs.is_empty() {
            let mut inline = toml_edit::InlineTable::new();
            for (name, text) in pairs {
                inline.insert(name, text.as_str().into());
            }
            table.insert(key, value(inline));
        }
    }
    if let Some(cwd) = &server.cwd {
        table.insert("cwd", value(cwd.as_str()));
    }
    if let Some(share) = server.share {
        let word = match share {
            Share::Home => "home",
            Share::Workspace => "workspace",
            Share::Thread => "thread",
        };
        table.insert("share", value(word));
    }
    if server.trust {
        table.insert("trust", value(true));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::locate(Some(dir.path()), None, None).unwrap();
        home.prepare().unwrap();
        (dir, home)
    }

    fn server() -> NewServer {
        NewServer {
            launch: NewLaunch::Command {
                program: "npx".to_owned(),
                args: vec!["-y".to_owned(), "a \"b\"".to_owned()],
            },
            env: vec![("TOKEN".to_owned(), "${secret:gh}".to_owned())],
            headers: Vec::new(),
            cwd: None,
            share: Some(Share::Thread),
            trust: true,
        }
    }

    #[test]
    fn a_server_is_added_and_removed_and_comments_stay() {
        let (_dir, home) = home();
        let own = "# mine\n[http]\nport = 7000 # why\n\n[servers.old]\ncommand = \"x\" # keep\n";
        std::fs::write(home.config_file(), own).unwrap();
        add_server(&home, "github", &server(), false).unwrap();
        let text = std::fs::read_to_string(home.config_file()).unwrap();
        insta::assert_snapshot!(text, @r#"
        # mine
        [http]
        port = 7000 # why

        [servers.old]
        command = "x" # keep

        [servers.github]
        command = "npx"
        args = ["-y", 'a "b"']
        env = { TOKEN = "${secret:gh}" }
        share = "thread"
        trust = true
        "#);
        let again = add_server(&home, "github", &server(), false).unwrap_err();
        assert!(again.to_string().contains("pentad disconnect github"), "{again}");
        assert!(remove_server(&home, "github").unwrap());
        assert!(!remove_server(&home, "github").unwrap());
        assert_eq!(std::fs::read_to_string(home.config_file()).unwrap(), own);
    }

    #[test]
    fn f03_a_broken_configuration_is_kept() {
        let (_dir, home) = home();
        std::fs::write(home.config_file(), "[http\nport = 1").unwrap();
        assert!(add_server(&home, "a", &server(), false).is_err());
        assert_eq!(
            std::fs::read_to_string(home.config_file()).unwrap(),
            "[http\nport = 1"
        );
    }

    #[test]
    fn a_change_that_would_break_the_file_is_refused() {
        let (_dir, home) = home();
        for name in ["library", "pentad", "A", ""] {
            assert!(add_server(&home, name, &server(), false).is_err(), "{name}");
        }
        let mut bad = server();
        bad.env = vec![("X".to_owned(), "${HOME}".to_owned())];
        let error = add_server(&home, "a", &bad, false).unwrap_err();
        assert!(
            error.to_string().contains("was not changed: servers.a.env"),
            "{error}"
        );
        assert!(!home.config_file().exists());
    }
}
