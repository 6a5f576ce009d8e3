//! A run as a model of a few lines knows it.

use pentad_model::RunId;
use pentad_model::run::Run;
use pentad_model::step::{Completion, StepBody};
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum At {
    Queued,
    Running,
    Waiting,
    Ended,
}

/// An open or answered wait.
#[derive(Debug)]
pub struct Open {
    pub place: u32,
    pub name: Option<usize>,
    pub due: Option<i64>,
    /// Its order among all, as rows have it.
    pub row: usize,
    pub answer: Option<(usize, Value)>,
}

#[derive(Debug)]
pub struct Known {
    pub id: RunId,
    pub at: At,
    pub owner: Option<usize>,
    pub marked: bool,
    pub waits: Vec<Open>,
    pub kept: Vec<(usize, Value)>,
    pub steps: Vec<StepBody>,
    pub places: u32,
    pub record: Option<Run>,
}

impl Known {
    /// A run that was just queued.
    pub const fn queued(id: RunId) -> Self {
        Self {
            id,
            at: At::Queued,
            owner: None,
            marked: false,
            waits: Vec::new(),
            kept: Vec::new(),
            steps: Vec::new(),
            places: 0,
            record: None,
        }
    }

    pub fn is_held_by(&self, who: usize) -> bool {
        self.owner == Some(who) && self.at != At::Ended
    }

    pub fn last(&self) -> u64 {
        self.steps.len() as u64
    }

    pub fn put(&mut self, at: usize, value: Value) {
        let order = self
            .waits
            .iter()
            .filter_map(|wait| wait.answer.as_ref().map(|(order, _)| order + 1))
            .max()
            .unwrap_or(0);
        self.waits[at].answer = Some((order, value));
        if self.at == At::Waiting && self.owner.is_none() && !self.marked {
            self.at = At::Queued;
        }
    }

    pub fn has_answer(&self) -> bool {
        self.waits.iter().any(|wait| wait.answer.is_some())
    }

    pub fn end(&mut self) {
        self.at = At::Ended;
        self.owner = None;
        self.marked = false;
        self.waits.clear();
        self.kept.clear();
    }

    pub fn completed(&mut self, place: u32, value: Value) {
        self.steps.push(StepBody::Completed {
            position: place,
            completion: Completion::Done(value),
        });
    }
}
