//! What one stretch of a program's execution adds to its run, collected before it is written.

use pentad_model::event::{EventBody, NewEvent};
use pentad_model::run::{Run, RunError, RunStatus, Usage};
use pentad_model::step::{Command, Completion, NewStep, Repeat, StepBody};
use pentad_model::{RunId, Timestamp};
use pentad_program::{Act, Advance, Durability, Invoke, NewRun, Wait};

/// An act that begins when its command is written.
pub(crate) enum Start {
    Step(Repeat, Act),
    Invoke(Repeat, Invoke),
}

/// A completion that is in the journal once the batch is.
pub(crate) struct Local {
    pub(crate) position: u32,
    pub(crate) completion: Completion,
}

/// A stretch of execution.
pub(crate) struct Batch {
    pub(crate) steps: Vec<NewStep>,
    pub(crate) waits: Vec<Wait>,
    pub(crate) dropped: Vec<u32>,
    pub(crate) children: Vec<NewRun>,
    pub(crate) events: Vec<NewEvent>,
    pub(crate) starts: Vec<(u32, Start)>,
    pub(crate) locals: Vec<Local>,
    durability: Durability,
}

impl Batch {
    /// Returns an empty one.
    pub(crate) const fn new() -> Self {
        Self {
            steps: Vec::new(),
            waits: Vec::new(),
            dropped: Vec::new(),
            children: Vec::new(),
            events: Vec::new(),
            starts: Vec::new(),
            locals: Vec::new(),
            durability: Durability::Crash,
        }
    }

    /// Tells whether there is nothing to write.
    pub(crate) const fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.dropped.is_empty() && self.events.is_empty()
    }

    /// Tells whether something will go on by itself once this is written.
    pub(crate) const fn goes_on(&self) -> bool {
        !self.starts.is_empty() || !self.locals.is_empty()
    }

    /// Has it survive power loss.
    pub(crate) const fn must_be_synced(&mut self) {
        self.durability = Durability::Power;
    }

    pub(crate) const fn durability(&self) -> Durability {
        self.durability
    }

    /// Adds a step.
    pub(crate) fn step(&mut self, at: Timestamp, body: StepBody) {
        self.steps.push(NewStep { at, by: None, body });
    }

    /// Adds a command.
    pub(crate) fn command(&mut self, at: Timestamp, command: Command) {
        self.step(at, StepBody::Command(command));
    }

    /// Adds a completion that the program has been given.
    pub(crate) fn completed(&mut self, at: Timestamp, position: u32, completion: Completion) {
        self.step(at, StepBody::Completed { position, completion });
    }

    /// Completes a command by itself: the program is given this once it is written.
    pub(crate) fn answer(&mut self, at: Timestamp, position: u32, completion: Completion) {
        self.completed(at, position, completion.clone());
        self.locals.push(Local { position, completion });
    }

    /// Completes a command with an error.
    pub(crate) fn refuse(&mut self, at: Timestamp, position: u32, code: &str, message: String) {
        let code = code.to_owned();
        self.answer(at, position, Completion::Failed(RunError { code, message }));
    }

    /// Returns it as the journal takes it.
    pub(crate) fn advance(
        &self,
        run: RunId,
        after: u64,
        status: Option<RunStatus>,
        usage: Option<Usage>,
        at: Timestamp,
    ) -> Advance {
        Advance {
            run,
            after,
            steps: self.steps.clone(),
            waits: self.waits.clone(),
            dropped: self.dropped.clone(),
            children: self.children.clone(),
            status,
            usage,
            events: self.events.clone(),
            at,
        }
    }
}

/// Returns an event of a run in its thread.
pub(crate) fn event(run: &Run, at: Timestamp, body: EventBody) -> NewEvent {
    NewEvent {
        thread: run.thread,
        at,
        caller: run.caller.clone(),
        call: None,
        run: Some(run.id),
        body,
    }
}
