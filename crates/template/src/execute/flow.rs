//! The result of a part of a run, on its way up.

use crate::launch::{Launched, Stream};
use crate::report::{Branch, FailureReason, NonCritical, Report};
use crate::tree::Failure;

/// Is the exit code for output that could not be handed to the next step.
const CODE_IO: i32 = 74;

#[derive(Debug, Clone, Default)]
pub(super) struct Flow {
    pub(super) code: i32,
    pub(super) killed: bool,
    pub(super) signal: Option<i32>,
    pub(super) stdout: Stream,
    pub(super) stderr: Stream,
    pub(super) stdout_bytes: u64,
    /// Says how far a failure was already found to reach.
    pub(super) scope: Failure,
    /// Tells that the time limit of a surrounding group is over: nothing more may start inside that group.
    pub(super) out_of_time: bool,
    pub(super) commands: Vec<String>,
    pub(super) branches: Vec<Branch>,
    pub(super) non_critical: Vec<NonCritical>,
    pub(super) reason: Option<FailureReason>,
    pub(super) last_command: Option<String>,
}

impl Flow {
    pub(super) fn of_launch(launched: Launched, command: String) -> Self {
        Self {
            code: launched.effective_code(),
            killed: launched.killed,
            signal: launched.signal,
            stdout_bytes: launched.stdout.total_bytes,
            stdout: launched.stdout,
            stderr: launched.stderr,
            commands: vec![command.clone()],
            last_command: Some(command),
            ..Self::default()
        }
    }

    /// Returns the result of a skipped node: its input flows through.
    pub(super) fn passed(input: &[u8]) -> Self {
        let stdout = Stream::complete(input);
        Self {
            stdout_bytes: stdout.total_bytes,
            stdout,
            ..Self::default()
        }
    }

    pub(super) fn timed_out(message: String) -> Self {
        let stderr = Stream::complete(message);
        Self {
            code: 124,
            killed: true,
            stderr,
            out_of_time: true,
            ..Self::default()
        }
    }

    pub(super) fn failed(&self) -> bool {
        self.code != 0
    }

    pub(super) fn usable(&self) -> bool {
        !self.failed() && self.stdout_bytes > 0 && !self.stdout.truncated
    }

    pub(super) fn add_to_stderr(&mut self, line: &str) {
        let mut text = self.stderr.text();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(line);
        self.stderr = Stream {
            file: self.stderr.file.take(),
            ..Stream::complete(text)
        };
    }

    /// Puts what happened before in front of what happened here.
    pub(super) fn preceded_by(&mut self, mut earlier: History) {
        earlier.absorb(self);
        self.commands = earlier.commands;
        self.branches = earlier.branches;
        self.non_critical = earlier.non_critical;
    }

    /// Turns a failure that does not matter into success without output.
    pub(super) fn forgive(&mut self) {
        self.code = 0;
        self.killed = false;
        self.signal = None;
        self.stdout = Stream::default();
        self.stdout_bytes = 0;
        self.scope = Failure::Continue;
        self.reason = None;
    }

    pub(super) fn as_non_critical(&self) -> NonCritical {
        NonCritical {
            code: self.code,
            command: self.last_command.clone().unwrap_or_default(),
            killed: self.killed,
        }
    }

    pub(super) fn broken_pipe(error: &std::io::Error) -> Self {
        let stderr = Stream::complete(format!(
            "The output of a step cannot be handed to the next: {error}."
        ));
        Self {
            code: CODE_IO,
            stderr,
            scope: Failure::Root,
            ..Self::default()
        }
    }

    pub(super) fn into_report(self) -> Report {
        let failure = self
            .failed()
            .then(|| self.reason.unwrap_or(FailureReason::CommandFailed));
        Report {
            code: self.code,
            killed: self.killed,
            signal: self.signal,
            stdout: self.stdout,
            stderr: self.stderr,
            stdout_bytes: self.stdout_bytes,
            commands: self.commands,
            branches: self.branches,
            non_critical: self.non_critical,
            failure,
        }
    }
}

/// Collects what several parts of a run did, in order.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) commands: Vec<String>,
    pub(super) branches: Vec<Branch>,
    pub(super) non_critical: Vec<NonCritical>,
}

impl History {
    pub(super) fn absorb(&mut self, flow: &mut Flow) {
        self.commands.append(&mut flow.commands);
        self.branches.append(&mut flow.branches);
        for failure in flow.non_critical.drain(..) {
            push_failure(&mut self.non_critical, failure);
        }
    }

    pub(super) fn record(&mut self, flow: &Flow) {
        push_failure(&mut self.non_critical, flow.as_non_critical());
    }
}

fn push_failure(failures: &mut Vec<NonCritical>, failure: NonCritical) {
    if failures.last() != Some(&failure) {
        failures.push(failure);
    }
}
