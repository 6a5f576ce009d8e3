//! Plans: an ordered list of steps that settle by evidence.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::RunId;
use crate::refusal::{Refusal, RefusalKind};
use crate::text::excerpt;

/// Most steps a plan may have.
pub const MAX_STEPS: usize = 100;
/// Longest label, title or step id in bytes.
pub const MAX_LABEL_BYTES: usize = 800;

/// Where a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not begun.
    Pending,
    /// Being worked on; a child spawned while exactly one step runs attaches to it.
    Running,
    /// Finished.
    Done,
    /// Given up.
    Failed,
    /// Not needed.
    Skipped,
}

impl StepStatus {
    /// The accepted words.
    pub const WORDS: [&str; 5] = ["pending", "running", "done", "failed", "skipped"];

    /// Tells whether nothing is owed for this step any more.
    #[must_use]
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Skipped)
    }

    /// Returns the word of this status.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Stable identifier within the plan.
    pub id: String,
    /// What a person reads.
    pub label: String,
    /// Where it stands.
    pub status: StepStatus,
    /// The runs that settled it; only the engine writes this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<RunId>,
}

/// A whole plan; each `plan` replaces the last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What the plan is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The steps in order.
    pub steps: Vec<Step>,
}

fn refuse(subject: impl Into<String>, message: impl Into<String>) -> Refusal {
    Refusal::new(RefusalKind::BadRequest, subject, message)
}

impl Plan {
    /// Parses a title and a `steps` value; a bare string is a pending step, a missing id becomes `step-<n>`.
    ///
    /// # Errors
    /// Refuses unknown keys and statuses, doubled ids, more than 100 steps and labels over 800 bytes.
    pub fn parse(title: Option<&str>, steps: &Value) -> Result<Self, Refusal> {
        let list = steps
            .as_array()
            .ok_or_else(|| refuse("steps", "plan's 'steps' must be a list."))?;
        if list.len() > MAX_STEPS {
            return Err(refuse(
                "steps",
                format!(
                    "A plan has at most {MAX_STEPS} steps; this one has {}.",
                    list.len()
                ),
            ));
        }
        let title = title
            .map(str::trim)
            .filter(|t| !t.is_empty())
            .map(|t| bounded("title", t))
            .transpose()?;
        let steps = list
            .iter()
            .enumerate()
            .map(|(at, step)| parse_step(at + 1, step))
            .collect::<Result<Vec<_>, _>>()?;
        for (at, step) in steps.iter().enumerate() {
            if steps.iter().take(at).any(|earlier| earlier.id == step.id) {
                return Err(refuse(
                    step.id.as_str(),
                    format!("Two steps have the id '{}'.", step.id),
                ));
            }
        }
        Ok(Self { title, steps })
    }

    /// Returns the steps that are neither done, failed nor skipped.
    pub fn open_steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| !step.status.is_settled())
    }

    /// Renders the plan as a Markdown checklist.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut text = self
            .title
            .as_ref()
            .map_or_else(String::new, |title| format!("**{title}**\n"));
        for step in &self.steps {
            let mark = match step.status {
                StepStatus::Pending => " ",
                StepStatus::Running => "~",
                StepStatus::Done => "x",
                StepStatus::Failed => "!",
                StepStatus::Skipped => "-",
            };
            text.push_str(&format!(
                "- [{mark}] `{}` {} ({})\n",
                step.id,
                step.label,
                step.status.word()
            ));
        }
        text
    }
}

fn bounded(key: &str, text: &str) -> Result<String, Refusal> {
    if text.len() > MAX_LABEL_BYTES {
        let message = format!(
            "A plan's {key} has at most {MAX_LABEL_BYTES} bytes; this one has {}.",
            text.len()
        );
        return Err(refuse(excerpt(text, 60), message));
    }
    Ok(text.to_owned())
}

fn parse_step(number: usize, value: &Value) -> Result<Step, Refusal> {
    let fallback_id = format!("step-{number}");
    if let Value::String(label) = value {
        let label = bounded("label", label.trim())?;
        return Ok(Step {
            id: fallback_id,
            label,
            status: StepStatus::Pending,
            evidence: Vec::new(),
        });
    }
    let map = value.as_object().ok_or_else(|| {
        refuse(
            format!("steps[{}]", number - 1),
            "A step is an object with id, label and status.",
        )
    })?;
    if let Some(key) = map
        .keys()
        .find(|k| !["id", "label", "status"].contains(&k.as_str()))
    {
        return Err(
            refuse(key.as_str(), format!("A step has no '{key}'.")).supported(["id", "label", "status"])
        );
    }
    let text = |key: &str| match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim()).filter(|t| !t.is_empty())),
        Some(_) => Err(refuse(key, format!("A step's {key} must be a string."))),
    };
    let status = match text("status")? {
        None => StepStatus::Pending,
        Some(word) => serde_json::from_value(Value::String(word.to_owned())).map_err(|_| {
            refuse(word, format!("'{}' is no step status.", excerpt(word, 40))).supported(StepStatus::WORDS)
        })?,
    };
    let id = text("id")?.map_or(Ok(fallback_id), |id| bounded("step id", id))?;
    let label = bounded("label", text("label")?.unwrap_or(&id))?;
    Ok(Step {
        id,
        label,
        status,
        evidence: Vec::new(),
    })
}
