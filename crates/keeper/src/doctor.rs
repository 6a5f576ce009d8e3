//! Checks of a home, as data.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub use pentad_program::Diagnostic as Finding;
use pentad_program::Severity;

use crate::config::{Config, ServerEntry};
use crate::home::{Home, mode_of};
use crate::secrets::{SecretName, Secrets};
use crate::template::Template;

/// What the checks need to know of the world.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The value of `PATH`.
    pub path: Option<std::ffi::OsString>,
    /// The home directory.
    pub home_dir: Option<PathBuf>,
    /// The names of the environment variables that are set.
    pub variables: BTreeSet<String>,
    /// Whether a keeper runs in this home: its port is then in use by right.
    pub keeper_runs: bool,
}

fn finding(
    severity: Severity,
    subject: impl Into<String>,
    message: impl Into<String>,
    next: Option<String>,
) -> Finding {
    Finding {
        severity,
        subject: subject.into(),
        message: message.into(),
        next,
    }
}

/// Examines a home and returns what is worth knowing, worst first.
#[must_use]
pub fn examine(home: &Home, around: &Surroundings) -> Vec<Finding> {
    let mut found = Vec::new();
    directories(home, &mut found);
    policy(home, &mut found);
    match Config::load(home) {
        Ok(config) => {
            roots(&config, around, &mut found);
            secrets(home, &config, &mut found);
            servers(&config, around, &mut found);
            port(&config, around, &mut found);
        }
        Err(error) => {
            let text = error.to_string();
            let (message, next) = split_next(&text);
            found.push(finding(Severity::Error, "config.toml", message, next));
        }
    }
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found
}

fn split_next(text: &str) -> (String, Option<String>) {
    match text.split_once("\nNext: ") {
        Some((message, next)) => (message.to_owned(), Some(next.to_owned())),
        None => (text.to_owned(), None),
    }
}

fn directories(home: &Home, found: &mut Vec<Finding>) {
    if let Err(error) = home.prepare() {
        let text = error.to_string();
        let (message, next) = split_next(&text);
        found.push(finding(Severity::Error, "home", message, next));
        return;
    }
    for (path, wanted) in home.directories() {
        let private = wanted == 0o700;
        if let Some(mode) = mode_of(&path)
            && private
            && mode & 0o077 != 0
        {
            let severity = if path == home.keys() {
                Severity::Error
            } else {
                Severity::Warning
            };
            found.push(open_to_others(severity, &path, mode, "700"));
        }
    }
    let file = Secrets::of(home).file().to_path_buf();
    if let Some(mode) = mode_of(&file)
        && mode & 0o077 != 0
    {
        found.push(open_to_others(Severity::Error, &file, mode, "600"));
    }
}

fn open_to_others(severity: Severity, path: &Path, mode: u32, wanted: &str) -> Finding {
    let path = path.display().to_string();
    let next = format!("chmod {wanted} {path}");
    let message = format!("other users of this machine may reach it (mode {mode:o})");
    finding(severity, path, message, Some(next))
}

fn policy(home: &Home, found: &mut Vec<Finding>) {
    let Ok(text) = std::fs::read_to_string(home.policy_file()) else {
        return;
    };
    if let Err(error) = toml_edit::Document::parse(text.as_str()) {
        let line = crate::config::line_at(&text, error.span().map_or(0, |span| span.start));
        let message = format!("line {line} is not TOML: {}", error.message().replace('\n', " "));
        let next = "repair that line; until then nothing that the policy allows is allowed".to_owned();
        found.push(finding(Severity::Error, "policy.toml", message, Some(next)));
    }
}

/// Puts the home directory in the place of a leading `~`.
#[must_use]
pub fn expand_tilde(path: &Path, home_dir: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home_dir) {
        (Ok(rest), Some(home_dir)) => home_dir.join(rest),
        _ => path.to_path_buf(),
    }
}

fn roots(config: &Config, around: &Surroundings, found: &mut Vec<Finding>) {
    for root in &config.roots {
        let path = expand_tilde(&root.path, around.home_dir.as_deref());
        let subject = format!("root {}", root.path.display());
        if !path.is_absolute() {
            let next = "write the whole path, or start it with ~/".to_owned();
            found.push(finding(
                Severity::Error,
                subject,
                "the path is relative",
                Some(next),
            ));
        } else if !path.is_dir() {
            let next = format!("mkdir -p {}, or remove the [[roots]] section", path.display());
            found.push(finding(
                Severity::Warning,
                subject,
                "there is no such folder",
                Some(next),
            ));
        }
    }
}

fn templates(config: &Config) -> Vec<(String, &Template)> {
    let mut all = Vec::new();
    all.extend(config.http.token.iter().map(|t| ("http".to_owned(), t)));
    for (name, server) in config.servers.iter().filter(|(_, server)| !server.disabled) {
        all.extend(server.templates().map(|t| (format!("server {name}"), t)));
    }
    all.extend(
        config
            .channels
            .iter()
            .map(|(name, c)| (format!("channel {name}"), &c.target)),
    );
    let keys = config
        .providers
        .iter()
        .filter_map(|(name, p)| Some((name, p.key.as_ref()?)));
    all.extend(keys.map(|(name, t)| (format!("provider {name}"), t)));
    all
}

fn secrets(home: &Home, config: &Config, found: &mut Vec<Finding>) {
    let known: BTreeSet<SecretName> = match Secrets::of(home).list() {
        Ok(names) => names.into_iter().collect(),
        Err(error) => {
            let text = error.to_string();
            let (message, next) = split_next(&text);
            found.push(finding(Severity::Error, "secrets", message, next));
            return;
        }
    };
    for (subject, template) in templates(config) {
        for name in template.secrets().filter(|name| !known.contains(name)) {
            let message = format!("the secret '{name}' is not set");
            let next = format!("pentad secret set {name}");
            found.push(finding(Severity::Error, subject.clone(), message, Some(next)));
        }
    }
}

fn servers(config: &Config, around: &Surroundings, found: &mut Vec<Finding>) {
    let enabled = config.servers.iter().filter(|(_, server)| !server.disabled);
    for (name, server) in enabled {
        let subject = format!("server {name}");
        if let Some(cwd) = &server.cwd {
            let path = expand_tilde(cwd, around.home_dir.as_deref());
            if !path.is_dir() {
                let message = format!("its folder {} does not exist", path.display());
                let next = format!("make the folder, or change servers.{name}.cwd");
                found.push(finding(Severity::Error, subject.clone(), message, Some(next)));
            }
        }
        if let Some(program) = missing_program(server, around) {
            let message = format!("'{program}' is not a program on PATH");
            let next = format!("install it, or write its whole path in servers.{name}.command");
            found.push(finding(Severity::Error, subject.clone(), message, Some(next)));
        }
        // Other faces may well have it.
        for missing in server.variables().difference(&around.variables) {
            let message = format!("the environment variable '{missing}' is not set here");
            let next = format!("set {missing} wherever a client of this server starts pentad");
            found.push(finding(Severity::Info, subject.clone(), message, Some(next)));
        }
    }
}

fn missing_program(server: &ServerEntry, around: &Surroundings) -> Option<String> {
    let command = server.command.as_ref().filter(|command| command.is_literal())?;
    let own_path = server.env.get("PATH").filter(|path| path.is_literal());
    let path = own_path
        .map(|path| path.source().into())
        .or_else(|| around.path.clone());
    let program = expand_tilde(Path::new(command.source()), around.home_dir.as_deref());
    find_program(&program, path.as_deref())
        .is_none()
        .then(|| command.source().to_owned())
}

/// Finds the file that a command name means: itself when it has a `/`, else the first executable on `path`.
#[must_use]
pub fn find_program(program: &Path, path: Option<&std::ffi::OsStr>) -> Option<PathBuf> {
    let executable = |file: &Path| {
        std::fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if program.components().count() > 1 || program.is_absolute() {
        return executable(program).then(|| program.to_path_buf());
    }
    std::env::split_paths(path?)
        .map(|dir| dir.join(program))
        .find(|file| executable(file))
}

fn port(config: &Config, around: &Surroundings, found: &mut Vec<Finding>) {
    let address = SocketAddr::new(config.http.bind, config.http.port);
    if around.keeper_runs || address.port() == 0 {
        return;
    }
    if let Err(error) = TcpListener::bind(address) {
        let message = format!("{address} cannot be used: {error}");
        let next = format!(
            "see who holds it with ss -ltnp 'sport = :{}', or set another [http] port",
            address.port()
        );
        found.push(finding(Severity::Warning, "http", message, Some(next)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    fn report(found: &[Finding], dir: &Path) -> String {
        let line = |f: &Finding| {
            let next = f.next.as_deref().unwrap_or("-");
            format!("{:?} [{}] {} | {next}", f.severity, f.subject, f.message)
        };
        let text: Vec<String> = found.iter().map(line).collect();
        text.join("\n").replace(&dir.display().to_string(), "HOME")
    }

    #[test]
    fn everything_wrong_is_named_with_its_next_step() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::locate(Some(&dir.path().join("h")), None, None).unwrap();
        home.prepare().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let config = format!(
            "[http]\nport = {port}\n[[roots]]\npath = \"~/gone\"\n[servers.a]\ncommand = \"no-such-program\"\n\
             env = {{ K = \"${{secret:missing}}\" }}\n[servers.b]\ncommand = \"sh\"\nargs = [\"${{env:SET}}${{env:UNSET}}\"]\n[servers.c]\ncommand = \"gone\"\n\
             disabled = true\n"
        );
        std::fs::write(home.config_file(), config).unwrap();
        std::fs::write(home.policy_file(), "deny = [\n").unwrap();
        let file = home.keys().join("secrets.toml");
        std::fs::write(&file, "a = \"b\"\n").unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        let bin = dir.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::write(bin.join("sh"), "").unwrap();
        std::fs::set_permissions(bin.join("sh"), Permissions::from_mode(0o755)).unwrap();
        let around = Surroundings {
            path: Some(bin.into_os_string()),
            home_dir: Some(dir.path().to_path_buf()),
            variables: ["SET".to_owned()].into(),
            keeper_runs: false,
        };
        let text = report(&examine(&home, &around), dir.path()).replace(&port.to_string(), "PORT");
        insta::assert_snapshot!(text, @r"
        Error [HOME/h/keys/secrets.toml] other users of this machine may reach it (mode 644) | chmod 600 HOME/h/keys/secrets.toml
        Error [policy.toml] line 1 is not TOML: unclosed array, expected `]` | repair that line; until then nothing that the policy allows is allowed
        Error [server a] the secret 'missing' is not set | pentad secret set missing
        Error [server a] 'no-such-program' is not a program on PATH | install it, or write its whole path in servers.a.command
        Warning [root ~/gone] there is no such folder | mkdir -p HOME/gone, or remove the [[roots]] section
        Warning [http] 127.0.0.1:PORT cannot be used: Address already in use (os error 98) | see who holds it with ss -ltnp 'sport = :PORT', or set another [http] port
        Info [server b] the environment variable 'UNSET' is not set here | set UNSET wherever a client of this server starts pentad
        ");
    }

    #[test]
    fn a_fresh_home_has_nothing_to_say() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::locate(Some(&dir.path().join("h")), None, None).unwrap();
        let around = Surroundings {
            keeper_runs: true,
            ..Surroundings::default()
        };
        assert_eq!(examine(&home, &around), []);
    }

    #[test]
    fn a_broken_configuration_is_one_finding() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::locate(Some(dir.path()), None, None).unwrap();
        home.prepare().unwrap();
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
        std::fs::write(home.config_file(), "[http]\nprot = 1\n").unwrap();
        let found = examine(&home, &Surroundings::default());
        assert_eq!(found.len(), 1);
        assert!(found[0].next.as_deref().unwrap().contains("'port'"));
    }
}
