//! Who is calling from a shell: a person, a client's agent, or one of our own runs. A fence, not a wall.

use std::path::Path;

use pentad_model::{Actor, Name, RunId};

/// The variable that marks every process of a run.
pub const RUN_VARIABLE: &str = "PENTAD_RUN";
/// The variable that names the agent of a run.
pub const AGENT_VARIABLE: &str = "PENTAD_AGENT";

/// Variables that agents set for the commands they run, with the client's name.
const EXACT: &[(&str, &str)] = &[
    ("CLAUDECODE", "claude-code"),
    ("CLAUDE_CODE_ENTRYPOINT", "claude-code"),
    ("GEMINI_CLI", "gemini-cli"),
    ("QWEN_CODE", "qwen-code"),
    ("OPENCODE", "opencode"),
    ("GOOSE_TERMINAL", "goose"),
    ("CURSOR_AGENT", "cursor"),
    ("CLINE_ACTIVE", "cline"),
    ("AUGMENT_AGENT", "augment"),
    ("CRUSH", "crush"),
    ("COPILOT_CLI", "copilot"),
    ("PI_CODING_AGENT", "pi"),
];

/// Families of variables that agents set, except for those that people set in their profiles.
const FAMILIES: &[(&str, &str, &[&str])] = &[
    (
        "CODEX_",
        "codex",
        &["CODEX_HOME", "CODEX_API_KEY", "CODEX_SQLITE_HOME"],
    ),
    ("CURSOR_", "cursor", &["CURSOR_API_KEY", "CURSOR_TRACE_ID"]),
    (
        "OPENCODE_",
        "opencode",
        &[
            "OPENCODE_CONFIG",
            "OPENCODE_CONFIG_DIR",
            "OPENCODE_CONFIG_CONTENT",
            "OPENCODE_API_KEY",
        ],
    ),
];

/// Process names of clients, with the client's name.
const PROCESSES: &[(&str, &str)] = &[
    ("claude", "claude-code"),
    ("codex", "codex"),
    ("cursor-agent", "cursor"),
    ("gemini", "gemini-cli"),
    ("qwen", "qwen-code"),
    ("opencode", "opencode"),
    ("goose", "goose"),
    ("goosed", "goose"),
    ("aider", "aider"),
    ("amp", "amp"),
    ("crush", "crush"),
    ("copilot", "copilot"),
    ("auggie", "augment"),
    ("droid", "factory"),
    ("kiro-cli", "kiro"),
    ("pentad", "pentad"),
];

/// Parts of script paths by which clients that run in an interpreter are known.
const SCRIPTS: &[(&str, &str)] = &[
    ("claude-code", "claude-code"),
    ("@openai/codex", "codex"),
    ("gemini-cli", "gemini-cli"),
    ("qwen-code", "qwen-code"),
    ("opencode", "opencode"),
    ("pi-coding-agent", "pi"),
    ("@sourcegraph/amp", "amp"),
    ("@github/copilot", "copilot"),
];

/// One process above ours.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ancestor {
    /// What the process calls itself.
    pub comm: String,
    /// The file name of its executable.
    pub exe: String,
    /// The script that an interpreter runs.
    pub script: Option<String>,
}

impl Ancestor {
    /// Tells whether this is a process of ours: a run's warden, or another face.
    pub(crate) fn is_ours(&self) -> bool {
        self.comm.starts_with("pentad") || self.exe == "pentad"
    }

    fn client(&self) -> Option<&'static str> {
        let process = PROCESSES
            .iter()
            .find(|(name, _)| self.comm == *name || self.exe == *name)
            .map(|(_, client)| *client);
        let script = || {
            let path = self.script.as_deref()?;
            let part = |name: &str| path.contains(&format!("{name}/")) || path.ends_with(name);
            SCRIPTS
                .iter()
                .find(|(name, _)| part(name))
                .map(|(_, client)| *client)
        };
        process.or_else(script)
    }
}

/// Who is calling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calling {
    /// The actor.
    pub actor: Actor,
    /// The run whose process this is, when it is one of ours.
    pub run: Option<RunId>,
    /// Why this is no person, for refusals: a variable or a process.
    pub evidence: Option<String>,
}

/// Decides who is calling from the environment and the processes above.
///
/// `PENTAD_RUN` means one of our own runs even when its value is no id: whoever garbles it gains nothing.
#[must_use]
pub fn caller_of<'e>(
    environment: impl IntoIterator<Item = (&'e str, &'e str)>,
    ancestors: &[Ancestor],
) -> Calling {
    let mut run = None;
    let mut agent = None;
    let mut client: Option<(&'static str, String)> = None;
    for (name, value) in environment {
        match name {
            RUN_VARIABLE if !value.is_empty() => run = Some(value.parse::<RunId>().ok()),
            AGENT_VARIABLE => agent = value.parse::<Name>().ok(),
            _ if value.is_empty() => {}
            _ => {
                if let Some(found) = client_of_variable(name, value) {
                    // The order of an environment is no one's decision; the smallest name makes the answer stable.
                    if client.as_ref().is_none_or(|(_, seen)| name < seen.as_str()) {
                        client = Some((found, name.to_owned()));
                    }
                }
            }
        }
    }
    if let Some(run) = run {
        return Calling {
            actor: Actor::Agent(agent.unwrap_or_else(Name::main)),
            run,
            evidence: Some(RUN_VARIABLE.to_owned()),
        };
    }
    let process = || {
        ancestors.iter().find_map(|ancestor| {
            let client = ancestor.client()?;
            Some((client, format!("the process '{}' above this one", ancestor.comm)))
        })
    };
    match client.or_else(process) {
        Some((client, evidence)) => Calling {
            actor: Actor::Client(Name::sanitised(client, &Name::main())),
            run: None,
            evidence: Some(evidence),
        },
        None => Calling {
            actor: Actor::User,
            run: None,
            evidence: None,
        },
    }
}

fn client_of_variable(name: &str, value: &str) -> Option<&'static str> {
    if let Some((_, client)) = EXACT.iter().find(|(known, _)| *known == name) {
        return (value != "0" && value != "false").then_some(*client);
    }
    if name == "AGENT" {
        return PROCESSES
            .iter()
            .find(|(known, _)| *known == value)
            .map(|(_, client)| *client);
    }
    FAMILIES
        .iter()
        .find(|(prefix, _, settings)| name.starts_with(prefix) && !settings.contains(&name))
        .map(|(_, client, _)| *client)
}

/// Returns the key of the thread in which the commands of a shell work: one for each caller and agent.
#[must_use]
pub fn shell_thread(actor: &Actor, agent: Option<&Name>) -> String {
    let main = Name::main();
    format!("shell:{actor}:{}", agent.unwrap_or(&main))
}

/// Tells whether a person sits at the terminal: only then may something be approved, trusted or revealed.
#[must_use]
pub const fn is_person_at_terminal(calling: &Calling, stdin_is_terminal: bool) -> bool {
    stdin_is_terminal && calling.actor.is_person() && calling.evidence.is_none()
}

/// Returns the processes above this one, nearest first. Empty where the system does not tell (only Linux does).
#[must_use]
pub fn ancestors() -> Vec<Ancestor> {
    ancestors_of(Path::new("/proc"), std::process::id())
}

/// Returns the processes above `start`, nearest first, as `proc` shows them.
pub(crate) fn ancestors_of(proc: &Path, start: u32) -> Vec<Ancestor> {
    const MOST: usize = 64;
    let mut found = Vec::new();
    let mut pid = parent_of(proc, start);
    while let Some(current) = pid.filter(|pid| *pid > 1)
        && found.len() < MOST
    {
        found.push(ancestor(&proc.join(current.to_string())));
        pid = parent_of(proc, current);
    }
    found
}

/// Returns the environment that a process was started with; `None` where the system does not tell.
pub(crate) fn environment_of(proc: &Path, pid: u32) -> Option<Vec<(String, String)>> {
    let bytes = std::fs::read(proc.join(pid.to_string()).join("environ")).ok()?;
    let entries = bytes.split(|byte| *byte == 0).filter_map(|entry| {
        let entry = String::from_utf8_lossy(entry);
        let (name, value) = entry.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    });
    Some(entries.collect())
}

/// Reads the parent from `stat`, whose second field may hold spaces and parentheses.
fn parent_of(proc: &Path, pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(proc.join(pid.to_string()).join("stat")).ok()?;
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(1)?.parse().ok()
}

fn ancestor(dir: &Path) -> Ancestor {
    let comm = std::fs::read_to_string(dir.join("comm")).unwrap_or_default();
    let exe = std::fs::read_link(dir.join("exe")).unwrap_or_default();
    let file_name = |path: &Path| {
        path.file_name()
            .map(|name| name.to_string_lossy().trim_end_matches(" (deleted)").to_owned())
            .unwrap_or_default()
    };
    let exe = file_name(&exe);
    let interpreter = ["node", "bun", "deno", "python", "ruby"]
        .iter()
        .any(|name| exe.starts_with(name));
    let script = interpreter.then(|| script_of(dir)).flatten();
    Ancestor {
        comm: comm.trim_end().to_owned(),
        exe,
        script,
    }
}

fn script_of(dir: &Path) -> Option<String> {
    let line = std::fs::read(dir.join("cmdline")).ok()?;
    line.split(|byte| *byte == 0)
        .skip(1)
        .map(String::from_utf8_lossy)
        .find(|word| !word.is_empty() && !word.starts_with('-'))
        .map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actor(environment: &[(&str, &str)], ancestors: &[Ancestor]) -> String {
        caller_of(environment.iter().copied(), ancestors)
            .actor
            .to_string()
    }

    fn process(comm: &str, exe: &str, script: Option<&str>) -> Ancestor {
        Ancestor {
            comm: comm.to_owned(),
            exe: exe.to_owned(),
            script: script.map(str::to_owned),
        }
    }

    #[test]
    fn a_plain_shell_is_a_person() {
        let shell = [
            process("zsh", "zsh", None),
            process("node", "node", Some("/srv/app.js")),
        ];
        let settings = [
            ("CODEX_HOME", "/x"),
            ("GOOSE_MODEL", "m"),
            ("CURSOR_TRACE_ID", "1"),
            ("OPENCODE_CONFIG", "/x"),
            ("CLAUDECODE", ""),
            ("AGENT", "ssh"),
            ("PENTAD_RUN", ""),
        ];
        let calling = caller_of(settings, &shell);
        assert_eq!(calling.actor, Actor::User);
        assert!(is_person_at_terminal(&calling, true));
        assert!(!is_person_at_terminal(&calling, false));
    }

    #[test]
    fn agent_variables_name_the_client() {
        for (name, value, expected) in [
            ("CLAUDECODE", "1", "client:claude-code"),
            ("CODEX_SANDBOX", "seatbelt", "client:codex"),
            ("CURSOR_AGENT", "1", "client:cursor"),
            ("GEMINI_CLI", "1", "client:gemini-cli"),
            ("OPENCODE", "1", "client:opencode"),
            ("GOOSE_TERMINAL", "1", "client:goose"),
            ("AGENT", "amp", "client:amp"),
        ] {
            assert_eq!(actor(&[("HOME", "/h"), (name, value)], &[]), expected);
        }
        let both = [("GEMINI_CLI", "1"), ("CLAUDECODE", "1")];
        let turned = [("CLAUDECODE", "1"), ("GEMINI_CLI", "1")];
        assert_eq!(actor(&both, &[]), actor(&turned, &[]));
    }

    #[test]
    fn our_own_runs_are_agents_whatever_they_claim() {
        let run = RunId::generate();
        let text = run.to_string();
        let calling = caller_of(
            [
                ("CLAUDECODE", "1"),
                ("PENTAD_RUN", text.as_str()),
                ("PENTAD_AGENT", "ada"),
            ],
            &[],
        );
        assert_eq!(
            (calling.actor.to_string().as_str(), calling.run),
            ("agent:ada", Some(run))
        );
        let garbled = caller_of([("PENTAD_RUN", "x")], &[]);
        assert_eq!(
            (garbled.actor.to_string().as_str(), garbled.run),
            ("agent:main", None)
        );
        assert!(!is_person_at_terminal(&garbled, true));
    }

    #[test]
    fn processes_above_name_the_client() {
        let shell = process("bash", "bash", None);
        let ours = |ancestor: Ancestor| actor(&[], &[shell.clone(), ancestor]);
        assert_eq!(ours(process("claude", "node", None)), "client:claude-code");
        assert_eq!(ours(process("codex", "codex", None)), "client:codex");
        let script = "/usr/lib/node_modules/@google/gemini-cli/dist/index.js";
        assert_eq!(ours(process("node", "node", Some(script))), "client:gemini-cli");
        assert_eq!(ours(process("pentad", "pentad", None)), "client:pentad");
        let calling = caller_of([], &[process("claude", "node", None)]);
        assert_eq!(
            calling.evidence.as_deref(),
            Some("the process 'claude' above this one")
        );
    }

    #[test]
    fn the_process_tree_is_read_with_odd_names() {
        let dir = tempfile::tempdir().unwrap();
        for (pid, parent, comm) in [(50, 40, "bash"), (40, 30, "a) S 9 (b"), (30, 1, "node")] {
            let place = dir.path().join(pid.to_string());
            std::fs::create_dir(&place).unwrap();
            std::fs::write(place.join("stat"), format!("{pid} ({comm}) S {parent} 1 1")).unwrap();
            std::fs::write(place.join("comm"), format!("{comm}\n")).unwrap();
            std::fs::write(place.join("cmdline"), b"node\0--flag\0/x/claude-code/cli.js\0").unwrap();
            std::os::unix::fs::symlink(format!("/bin/{comm}"), place.join("exe")).unwrap();
        }
        let found = ancestors_of(dir.path(), 50);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].comm, "a) S 9 (b");
        assert_eq!(found[1].client(), Some("claude-code"));
    }
}
