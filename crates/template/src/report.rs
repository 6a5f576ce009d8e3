//! What a run of a template gave.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::launch::Stream;

const SHOWN_CHARS: usize = 1000;

/// Says how a parallel branch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchStatus {
    /// It succeeded.
    Done,
    /// It was ended by a time limit or cancellation.
    Timeout,
    /// It failed.
    Failed,
}

impl BranchStatus {
    /// Returns the word used in reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Timeout => "timeout",
            Self::Failed => "failed",
        }
    }
}

/// Says why a branch gave nothing usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchFailure {
    /// It succeeded without writing anything.
    EmptyOutput,
    /// It was ended by a time limit or cancellation.
    TimeoutOrKilled,
    /// It failed and said something.
    NonzeroExit,
    /// It failed without a word on stderr.
    NonzeroExitEmptyStderr,
}

impl BranchFailure {
    /// Returns the word used in reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::EmptyOutput => "empty_output",
            Self::TimeoutOrKilled => "timeout_or_killed",
            Self::NonzeroExit => "nonzero_exit",
            Self::NonzeroExitEmptyStderr => "nonzero_exit_empty_stderr",
        }
    }
}

/// Holds the report of one parallel branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// Names the branch.
    pub label: String,
    /// Says how it ended.
    pub status: BranchStatus,
    /// Is its exit code.
    pub code: i32,
    /// Is its last command, as a shell would need it.
    pub command: String,
    /// Tells that it was ended from outside.
    pub killed: bool,
    /// Says why it gave nothing usable.
    pub failure: Option<BranchFailure>,
    /// Is the end of what it wrote to stdout.
    pub stdout: String,
    /// Is the end of what it wrote to stderr.
    pub stderr: String,
    /// Is the number of bytes on stdout.
    pub stdout_bytes: u64,
    /// Is the number of bytes on stderr.
    pub stderr_bytes: u64,
    /// Is the file with the whole stdout.
    pub stdout_file: Option<PathBuf>,
    /// Tells that its output can be used.
    pub usable: bool,
}

impl Branch {
    fn to_value(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("label".to_owned(), json!(self.label));
        fields.insert("status".to_owned(), json!(self.status.word()));
        fields.insert("code".to_owned(), json!(self.code));
        fields.insert("command".to_owned(), json!(self.command));
        fields.insert("killed".to_owned(), json!(self.killed));
        if let Some(failure) = self.failure {
            fields.insert("failureReason".to_owned(), json!(failure.word()));
        }
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                fields.insert(name.to_owned(), json!(text));
            }
        }
        fields.insert("stdoutBytes".to_owned(), json!(self.stdout_bytes));
        fields.insert("stderrBytes".to_owned(), json!(self.stderr_bytes));
        if let Some(file) = &self.stdout_file {
            fields.insert("stdoutFile".to_owned(), json!(file.to_string_lossy()));
        }
        Value::Object(fields)
    }
}

/// Holds a failure that did not end the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NonCritical {
    /// Is the exit code.
    pub code: i32,
    /// Is the command, as a shell would need it.
    pub command: String,
    /// Tells that it was ended from outside.
    pub killed: bool,
}

/// Sums up all parallel branches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoftQuorum {
    /// Is the number of branches.
    pub expected: usize,
    /// Is the number that succeeded.
    pub done: usize,
    /// Is the number that did not.
    pub failed: usize,
    /// Tells that at least one gave usable output.
    pub usable: bool,
}

/// Says why a run failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureReason {
    /// A command failed.
    CommandFailed,
    /// Too few branches gave usable output.
    ParallelQuorumNotMet,
    /// No branch gave usable output.
    AllBranchesUnusable,
}

impl FailureReason {
    /// Returns the word used in reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::CommandFailed => "command_failed",
            Self::ParallelQuorumNotMet => "parallel_quorum_not_met",
            Self::AllBranchesUnusable => "all_branches_unusable",
        }
    }
}

/// Holds the outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Is the exit code; zero is success.
    pub code: i32,
    /// Tells that the last command was ended from outside.
    pub killed: bool,
    /// Is the signal that ended the last command.
    pub signal: Option<i32>,
    /// Is the result.
    pub stdout: Stream,
    /// Is what the last command wrote to stderr.
    pub stderr: Stream,
    /// Is the number of bytes that commands wrote to make the result.
    pub stdout_bytes: u64,
    /// Are the commands that ran, as a shell would need them.
    pub commands: Vec<String>,
    /// Are the parallel branches, inner ones first.
    pub branches: Vec<Branch>,
    /// Are the failures that did not end the run; equal neighbours are one.
    pub non_critical: Vec<NonCritical>,
    /// Says why it failed.
    pub failure: Option<FailureReason>,
}

impl Report {
    /// Tells whether the run succeeded.
    pub fn is_success(&self) -> bool {
        self.code == 0
    }

    /// Sums up all branches, if there are any.
    pub fn soft_quorum(&self) -> Option<SoftQuorum> {
        if self.branches.is_empty() {
            return None;
        }
        let done = self
            .branches
            .iter()
            .filter(|b| b.status == BranchStatus::Done)
            .count();
        let expected = self.branches.len();
        let usable = self.branches.iter().any(|b| b.usable);
        Some(SoftQuorum {
            expected,
            done,
            failed: expected - done,
            usable,
        })
    }

    /// Returns the text for the caller: the result, or the code and both streams.
    pub fn text(&self) -> String {
        let stdout = self.stdout.text();
        let stdout = stdout.trim_end();
        if self.is_success() {
            return if stdout.is_empty() {
                "(no output)".to_owned()
            } else {
                stdout.to_owned()
            };
        }
        let mut text = format!("Exit code {}", self.code);
        if let Some(signal) = self.signal {
            text.push_str(&format!(" (signal {signal})"));
        }
        if self.killed {
            text.push_str(" (killed)");
        }
        for (name, content) in [("stderr", self.stderr.text().trim_end()), ("stdout", stdout)] {
            if !content.trim().is_empty() {
                text.push_str(&format!("\n\n{name}:\n{content}"));
            }
        }
        text
    }

    /// Returns the details as JSON.
    pub fn details(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("code".to_owned(), json!(self.code));
        fields.insert("command".to_owned(), json!(self.commands.join(" && ")));
        fields.insert("killed".to_owned(), json!(self.killed));
        if let Some(signal) = self.signal {
            fields.insert("signal".to_owned(), json!(signal));
        }
        fields.insert("stdoutBytes".to_owned(), json!(self.stdout_bytes));
        fields.insert("stderrBytes".to_owned(), json!(self.stderr.total_bytes));
        for (name, stream) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if stream.truncated {
                fields.insert(format!("{name}Truncated"), json!(true));
            }
            if let Some(file) = &stream.file {
                fields.insert(format!("{name}File"), json!(file.to_string_lossy()));
            }
        }
        if !self.branches.is_empty() {
            let branches: Vec<Value> = self.branches.iter().map(Branch::to_value).collect();
            fields.insert("branches".to_owned(), json!(branches));
        }
        if !self.non_critical.is_empty() {
            let failures: Vec<Value> = self
                .non_critical
                .iter()
                .map(|f| json!({"code": f.code, "command": f.command, "killed": f.killed}))
                .collect();
            fields.insert("nonCriticalFailures".to_owned(), json!(failures));
        }
        if let Some(quorum) = self.soft_quorum() {
            let coverage = match quorum.done {
                0 => json!(0),
                done if done == quorum.expected => json!(1),
                done => json!(done as f64 / quorum.expected as f64),
            };
            fields.insert(
                "softQuorum".to_owned(),
                json!({
                    "coverage": coverage, "degraded": quorum.failed > 0, "done": quorum.done,
                    "expected": quorum.expected, "failed": quorum.failed, "usable": quorum.usable,
                }),
            );
        }
        if let Some(failure) = self.failure {
            fields.insert("failureReason".to_owned(), json!(failure.word()));
        }
        Value::Object(fields)
    }
}

/// Returns the last characters of a text.
pub(crate) fn last_chars(text: &str) -> String {
    let count = text.chars().count();
    text.chars().skip(count.saturating_sub(SHOWN_CHARS)).collect()
}
