//! Who is at the other end of the socket, as the system tells it.

use std::path::Path;

use pentad_model::invocation::ThreadChoice;
use pentad_model::{Actor, Caller, Invocation, Name, Refusal, RefusalKind};
use tokio::net::UnixStream;

use super::frame::Role;
use crate::caller::{Ancestor, Calling, ancestors_of, caller_of, environment_of, shell_thread};

/// The process that attached, judged when it did.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its id, where the system tells.
    pub pid: Option<u32>,
    /// Who calls, found from its environment and the processes above it.
    pub calling: Calling,
    /// Whether its standard input is a terminal.
    pub at_terminal: bool,
    /// Whether an agent's shell or a run of ours started it, rather than a client.
    pub of_an_agent: bool,
}

impl Peer {
    /// Looks at the process that connected.
    ///
    /// What the face says of itself plays no part: the environment and the processes above are read from the system.
    /// Where it does not tell (only Linux does), the caller counts as a script: a person's commands work, approving
    /// and trusting do not.
    #[must_use]
    pub fn of(stream: &UnixStream) -> Self {
        let pid = stream
            .peer_cred()
            .ok()
            .and_then(|found| found.pid())
            .and_then(|pid| u32::try_from(pid).ok());
        Self::of_process(Path::new("/proc"), pid)
    }

    /// Looks at this process.
    #[must_use]
    pub fn own_process() -> Self {
        Self::of_process(Path::new("/proc"), Some(std::process::id()))
    }

    fn of_process(proc: &Path, pid: Option<u32>) -> Self {
        let unknown = || Calling {
            actor: Actor::User,
            run: None,
            evidence: Some("the process at the other end cannot be looked at".to_owned()),
        };
        let seen = pid.and_then(|pid| Some((pid, environment_of(proc, pid)?)));
        let Some((pid, environment)) = seen else {
            return Self {
                pid,
                calling: unknown(),
                at_terminal: false,
                of_an_agent: false,
            };
        };
        let pairs = || {
            let entries = environment.iter();
            entries.map(|(name, value)| (name.as_str(), value.as_str()))
        };
        let ancestors = ancestors_of(proc, pid);
        let stdin = std::fs::read_link(proc.join(pid.to_string()).join("fd/0")).unwrap_or_default();
        let at_terminal = stdin.starts_with("/dev/pts") || stdin.to_string_lossy().starts_with("/dev/tty");
        Self {
            pid: Some(pid),
            of_an_agent: caller_of(pairs(), &[]).evidence.is_some()
                || ancestors.iter().any(Ancestor::is_ours),
            calling: caller_of(pairs(), &ancestors),
            at_terminal,
        }
    }

    /// Makes an invocation this peer's own: who calls is what was found, never what was claimed.
    pub(super) fn own(&self, role: Role, invocation: &mut Invocation) {
        let run = self.calling.run;
        invocation.run = run;
        self.own_thread(role, invocation);
        let found = &self.calling.actor;
        let named = match &invocation.caller.actor {
            Actor::Client(name) => Some(name.clone()),
            _ => None,
        };
        invocation.caller = match (role, found) {
            (Role::Shell, _) | (Role::Client, Actor::Agent(_)) => found.clone().into(),
            // A client introduces itself; below it there may be others, and the nearest one calls.
            (Role::Client, _) => Caller {
                actor: Actor::Client(named.unwrap_or_else(|| Name::sanitised("mcp", &Name::main()))),
                on_behalf_of: None,
            },
        };
    }

    /// Keeps a face in threads of its own: the thread of a shell is named after whoever was found there.
    fn own_thread(&self, role: Role, invocation: &mut Invocation) {
        let ThreadChoice::Key(key) = &mut invocation.thread else {
            return;
        };
        let of_a_shell = key.starts_with("shell:");
        match role {
            Role::Shell => *key = shell_thread(&self.calling.actor, invocation.agent.as_ref()),
            Role::Client if of_a_shell => *key = format!("client:{key}"),
            Role::Client => {}
        }
    }

    /// Tells whether questions may be put through this peer to the person behind it.
    ///
    /// A client shows them to whoever uses it. A program that an agent started and that plays the client would answer
    /// for the person: its variables, or a run of ours above it, give it away.
    #[must_use]
    pub const fn may_be_asked(&self, role: Role) -> bool {
        matches!(role, Role::Client) && !self.of_an_agent
    }

    /// Tells whether a person sits at a terminal at the other end, with no agent in between.
    pub(super) const fn is_person_at_terminal(&self) -> bool {
        self.at_terminal && self.calling.actor.is_person() && self.calling.evidence.is_none()
    }

    /// Refuses unless a person sits at a terminal at the other end.
    pub(super) fn require_person(&self, what: &str) -> Result<(), Refusal> {
        if self.is_person_at_terminal() {
            return Ok(());
        }
        let why = self.calling.evidence.as_deref().map_or_else(
            || "its standard input is no terminal".to_owned(),
            |evidence| format!("found {evidence}"),
        );
        Err(Refusal::new(
            RefusalKind::Forbidden,
            what,
            format!("{what} needs a person at a terminal ({why})."),
        )
        .next_step("a person runs it in a terminal of their own, outside of any agent"))
    }

    /// Refuses when an agent is found at the other end; a person's scripts may.
    pub(super) fn require_no_agent(&self, what: &str) -> Result<(), Refusal> {
        match &self.calling.evidence {
            Some(evidence) if !self.calling.actor.is_person() => Err(Refusal::new(
                RefusalKind::Forbidden,
                what,
                format!("{what} is for a person, and this is an agent's shell (found {evidence})."),
            )
            .next_step("ask a person to run it")),
            _ => Ok(()),
        }
    }
}
