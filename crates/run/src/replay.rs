//! Checking what a resumed program asks for against what is recorded.

use std::collections::{HashMap, VecDeque};

use pentad_model::run::RunError;
use pentad_model::step::Command;

use crate::context::Issued;

/// Recorded and issued commands on their way to being the same.
#[derive(Default)]
pub(crate) struct Replay {
    /// Issued, and not found in the record so far.
    issued: VecDeque<Issued>,
    /// In the record, without a completion so far.
    open: HashMap<u32, Issued>,
}

/// A resumed program asked for something else than is recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("command {position} is recorded as {recorded}, and the program now asks for {attempted}")]
pub(crate) struct Mismatch {
    position: u32,
    recorded: String,
    attempted: String,
}

impl Mismatch {
    /// Returns the error that the run ends with.
    pub(crate) fn into_error(self) -> RunError {
        RunError {
            code: "nondeterministic".to_owned(),
            message: format!(
                "This run cannot be resumed: {self}. The program is not the one that ran before, or it depends on \
                 something else than what it was given; read run:<id>/journal, and start it again."
            ),
        }
    }
}

fn shown(command: &Command) -> String {
    let asked = pentad_model::text::excerpt(&command.asked.to_string(), 200);
    format!("{} {asked} ({})", command.kind.word(), command.fingerprint)
}

impl Replay {
    /// Takes what the program has issued.
    pub(crate) fn issue(&mut self, issued: Vec<Issued>) {
        self.issued.extend(issued);
    }

    /// Finds a recorded command among what was issued.
    pub(crate) fn command(&mut self, recorded: &Command) -> Result<(), Mismatch> {
        let position = recorded.position;
        let differs = |attempted: String| Mismatch {
            position,
            recorded: shown(recorded),
            attempted,
        };
        let Some(issued) = self.issued.pop_front() else {
            return Err(differs("nothing".to_owned()));
        };
        let own = &issued.command;
        if (own.position, own.kind, own.fingerprint) != (position, recorded.kind, recorded.fingerprint) {
            return Err(differs(shown(own)));
        }
        // What became of an interrupted act was decided when it was recorded.
        let command = Command {
            repeat: recorded.repeat,
            ..issued.command
        };
        self.open.insert(position, Issued { command, ..issued });
        Ok(())
    }

    /// Takes a recorded completion: its command must have been found.
    pub(crate) fn complete(&mut self, position: u32) -> Result<Issued, Mismatch> {
        match self.open.remove(&position) {
            Some(issued) => Ok(issued),
            None => Err(Mismatch {
                position,
                recorded: "completed".to_owned(),
                attempted: "nothing of the kind".to_owned(),
            }),
        }
    }

    /// Returns the commands that are recorded and not completed, by their places, and those that are new.
    pub(crate) fn finish(self) -> (Vec<Issued>, Vec<Issued>) {
        let mut open: Vec<Issued> = self.open.into_values().collect();
        open.sort_by_key(|issued| issued.command.position);
        (open, self.issued.into())
    }
}
