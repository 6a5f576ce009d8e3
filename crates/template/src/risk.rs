//! Labels what the commands of a template could do, from their words alone.
//!
//! Labels help a person to judge; nothing is allowed or refused because of them.

use crate::tree::{CommandLine, Template};
use crate::words::split_words;

/// Is something a command may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// It starts a shell.
    Shell,
    /// It evaluates code given as an argument.
    Eval,
    /// It removes files.
    DestructiveFs,
    /// It writes to many places.
    BroadFsWrite,
    /// It changes something outside the machine.
    ExternalSideEffect,
    /// It handles secrets.
    SecretTouching,
    /// It uses the network.
    Network,
    /// It runs for a long time.
    LongRunning,
    /// It works on one kind of system only.
    PlatformSpecific,
}

impl Risk {
    /// Returns the label used in reports.
    pub fn label(self) -> &'static str {
        match self {
            Self::Shell => "risk.shell",
            Self::Eval => "risk.eval",
            Self::DestructiveFs => "risk.destructive_fs",
            Self::BroadFsWrite => "risk.broad_fs_write",
            Self::ExternalSideEffect => "risk.external_side_effect",
            Self::SecretTouching => "risk.secret_touching",
            Self::Network => "risk.network",
            Self::LongRunning => "risk.long_running",
            Self::PlatformSpecific => "risk.platform_specific",
        }
    }
}

/// Returns the labels of all commands of a template, in order of severity.
pub fn risks(template: &Template) -> Vec<Risk> {
    let mut found = Vec::new();
    each_command(template, None, &mut |line, _| found.extend(line_risks(line)));
    found.sort_unstable();
    found.dedup();
    found
}

fn each_command<'a>(
    template: &'a Template,
    label: Option<&'a str>,
    visit: &mut impl FnMut(&CommandLine, Option<&str>),
) {
    match template {
        Template::Command(line) => visit(line, label),
        Template::Sequence(steps) => steps.iter().for_each(|step| each_command(step, label, visit)),
        Template::Node(node) => {
            let label = node.label.as_deref().or(label);
            each_command(&node.body, label, visit);
            node.recover
                .iter()
                .for_each(|recover| each_command(recover, label, visit));
        }
    }
}

const SHELLS: [&str; 4] = ["bash", "sh", "zsh", "fish"];
const PACKAGE_CLIENTS: [&str; 3] = ["npm", "pnpm", "yarn"];

/// Holds a command line split for judging.
struct Judged {
    words: Vec<String>,
    program: String,
}

impl Judged {
    fn read(line: &CommandLine) -> Option<Self> {
        let words: Vec<String> = split_words(line.text())
            .into_iter()
            .map(|word| word.text)
            .collect();
        let first = words.first()?;
        let program = first.rsplit('/').next().unwrap_or(first).to_ascii_lowercase();
        Some(Self { words, program })
    }

    fn args(&self) -> &[String] {
        self.words.get(1..).unwrap_or_default()
    }

    fn is(&self, programs: &[&str]) -> bool {
        programs.contains(&self.program.as_str())
    }

    fn has_flag(&self, flag: char) -> bool {
        self.args().iter().any(|arg| {
            arg.strip_prefix('-').is_some_and(|letters| {
                letters.contains(flag) && letters.chars().all(|c| c.is_ascii_alphabetic())
            })
        })
    }

    fn has_arg(&self, wanted: &[&str]) -> bool {
        self.args().iter().any(|arg| wanted.contains(&arg.as_str()))
    }

    fn has_risky_path(&self) -> bool {
        self.args().iter().any(|arg| {
            matches!(arg.as_str(), "~" | "./" | "../")
                || arg.contains('{')
                || arg.starts_with("~/")
                || arg.starts_with('/')
        })
    }

    fn is_shell(&self) -> bool {
        self.is(&SHELLS) || self.program.ends_with(".sh")
    }

    fn evaluates(&self) -> bool {
        let script = self.is(&["python", "python3", "perl", "ruby"]);
        (self.is(&SHELLS) && self.has_flag('c'))
            || (self.is(&["node", "deno", "bun"]) && (self.has_flag('e') || self.has_arg(&["--eval"])))
            || (script && (self.has_flag('c') || self.has_flag('e')))
    }

    fn removes(&self) -> bool {
        self.is(&["rm"])
            && (self.has_risky_path()
                || self.args().iter().any(|arg| {
                    arg.strip_prefix('-').is_some_and(|rest| {
                        rest.split('-')
                            .next()
                            .is_some_and(|letters| letters.contains(['r', 'f']))
                    })
                }))
    }
}

fn line_risks(line: &CommandLine) -> Vec<Risk> {
    let Some(judged) = Judged::read(line) else {
        return Vec::new();
    };
    let git = judged.is(&["git"]);
    let rules = [
        (Risk::Shell, judged.is_shell()),
        (Risk::Eval, judged.evaluates()),
        (Risk::DestructiveFs, judged.removes()),
        (
            Risk::BroadFsWrite,
            judged.is(&["mv", "cp", "rsync"]) && judged.has_risky_path(),
        ),
        (
            Risk::ExternalSideEffect,
            judged.is(&["gh", "glab", "hub", "kubectl", "terraform"])
                || (git && judged.has_arg(&["push"]))
                || (judged.is(&PACKAGE_CLIENTS)
                    && judged.has_arg(&["publish", "login", "logout", "deprecate"])),
        ),
        (
            Risk::SecretTouching,
            judged.is(&["pass", "gpg", "ssh-add"]) || judged.words.iter().any(|word| names_a_secret(word)),
        ),
        (
            Risk::Network,
            judged.is(&[
                "curl", "wget", "ssh", "scp", "sftp", "rsync", "nc", "ncat", "telnet", "ftp",
            ]) || (git && judged.has_arg(&["clone", "fetch", "pull", "push", "ls-remote"]))
                || judged.is(&PACKAGE_CLIENTS)
                || judged.is(&["pip", "cargo"]),
        ),
        (
            Risk::LongRunning,
            judged.is(&["sleep", "watch"])
                || (judged.is(&["tail"]) && judged.has_flag('f'))
                || judged.has_arg(&["--watch", "--serve", "serve"]),
        ),
        (
            Risk::PlatformSpecific,
            judged.is(&[
                "systemctl",
                "launchctl",
                "osascript",
                "open",
                "xdg-open",
                "powershell",
                "pwsh",
                "cmd.exe",
                "apt",
                "apt-get",
                "dnf",
                "yum",
                "brew",
                "pacman",
                "apk",
                "xclip",
                "wl-copy",
            ]),
        ),
    ];
    rules
        .into_iter()
        .filter(|(_, holds)| *holds)
        .map(|(risk, _)| risk)
        .collect()
}

const SECRET_WORDS: [&str; 15] = [
    "secret",
    "token",
    "password",
    "passwd",
    "credential",
    "apikey",
    "api_key",
    "api-key",
    "privatekey",
    "private_key",
    "private-key",
    ".env",
    "sshkey",
    "ssh_key",
    "ssh-key",
];

fn names_a_secret(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    let edge = |c: Option<char>| {
        c.is_none_or(|c| matches!(c, '{' | '}' | '.' | '_' | '-' | '/') || c.is_whitespace())
    };
    SECRET_WORDS.iter().any(|secret| {
        word.match_indices(secret).any(|(at, _)| {
            let before = word.get(..at).and_then(|head| head.chars().next_back());
            let after = word.get(at + secret.len()..).and_then(|tail| tail.chars().next());
            edge(before) && edge(after)
        })
    })
}

/// Returns warnings about commands that a person should look at before trusting the template.
pub fn command_warnings(template: &Template) -> Vec<String> {
    let mut warnings = Vec::new();
    each_command(template, None, &mut |line, label| {
        let Some(judged) = Judged::read(line) else { return };
        let name = label.unwrap_or_else(|| judged.words.first().map_or("", String::as_str));
        let mut warn = |text: &str| warnings.push(format!("{name}: {text}"));
        if judged.is(&SHELLS) {
            warn(&format!(
                "invokes {}; shell command strings are trusted executable content and are not sandboxed by command-template argv splitting. Mitigation: keep scripts local, reviewed, and parameterized with explicit placeholders.",
                judged.program
            ));
        } else if judged.is(&["node", "deno", "bun"]) && judged.evaluates() {
            warn(&format!(
                "invokes {} eval mode; code strings are trusted executable content and are not sandboxed. Mitigation: prefer a checked-in script file or keep eval input fixed and reviewed.",
                judged.program
            ));
        } else if judged.evaluates() {
            warn(&format!(
                "invokes {} with inline code; code strings are trusted executable content and are not sandboxed. Mitigation: prefer a checked-in script file or keep the code fixed and reviewed.",
                judged.program
            ));
        }
        if judged.removes() {
            warn(
                "removes filesystem paths; verify placeholders and paths before running trusted destructive commands. Mitigation: constrain path placeholders and consider dry-run or explicit confirmation.",
            );
        }
        if judged.is(&["mv", "cp", "rsync"]) && judged.has_risky_path() {
            warn(
                "writes broad filesystem paths; verify placeholders and destinations. Mitigation: constrain path placeholders.",
            );
        }
    });
    warnings
}
