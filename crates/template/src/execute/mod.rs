//! Runs a template.

mod flow;
mod group;
mod leaf;
mod node;

use std::io;

use futures::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::error::ExpandError;
use crate::frame::{Frame, Given};
use crate::launch::{Clock, Input, Launcher};
use crate::report::Report;
use crate::site::Site;
use crate::tree::Template;
use crate::value::Values;
use flow::Flow;

/// Bounds what one run may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Is the largest number of copies of a parallel repeat.
    pub max_parallel_branches: u32,
    /// Is the largest number of copies of a repeat that runs one after the other.
    pub max_repeat: u32,
    /// Is the largest number of attempts.
    pub max_attempts: u32,
    /// Is the largest output that the next step can read.
    pub max_input_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_parallel_branches: 64,
            max_repeat: 10_000,
            max_attempts: 1000,
            max_input_bytes: 256 * 1024 * 1024,
        }
    }
}

/// Says why a run stopped without a result.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// A command or a field could not be filled in; nothing is retried.
    #[error(transparent)]
    Expand(#[from] ExpandError),
    /// A group has no steps.
    #[error("Tool template produced no command steps.")]
    NoSteps,
    /// A parallel repeat has too many copies.
    #[error(
        "Command template parallel fanout {count} exceeds limit {limit}. Give concurrency to a smaller repeat, or raise the limit."
    )]
    FanOut {
        /// Is the number of copies asked for.
        count: u32,
        /// Is the limit.
        limit: u32,
    },
    /// A field asks for more repetitions than a run may have.
    #[error("Command template {field} {count} exceeds limit {limit}.")]
    TooMany {
        /// Is the field.
        field: &'static str,
        /// Is the number asked for.
        count: u64,
        /// Is the limit.
        limit: u32,
    },
    /// `min_successful` wants more branches than there are.
    #[error("Command template min_successful {wanted} exceeds the {branches} branches.")]
    Quorum {
        /// Is the number wanted.
        wanted: u64,
        /// Is the number of branches.
        branches: usize,
    },
    /// The run was canceled; everything it had started is gone.
    #[error("The run was canceled.")]
    Canceled,
}

/// Runs templates at a place with a launcher.
#[derive(Clone, Copy)]
pub struct Executor<'a> {
    /// Starts the commands.
    pub launcher: &'a dyn Launcher,
    /// Tells the time.
    pub clock: &'a dyn Clock,
    /// Says where commands run.
    pub site: &'a Site,
    /// Bounds the run.
    pub limits: Limits,
}

impl Executor<'_> {
    /// Runs a template to its end.
    ///
    /// Whatever way it ends, nothing that it started is left: a failing branch ends its siblings before the error is
    /// returned, and cancellation waits for the launcher.
    pub async fn run(
        &self,
        template: &Template,
        values: &Values,
        input: Input,
        cancel: &CancellationToken,
    ) -> Result<Report, ExecuteError> {
        let recipe_dir = self
            .site
            .recipe_dir
            .as_ref()
            .map(|dir| Value::String(dir.to_string_lossy().into_owned()));
        let given = Given { values, recipe_dir };
        let run = Run {
            executor: *self,
            given: &given,
        };
        let flow = run
            .template(template, Frame::root(), input, cancel.clone())
            .await?;
        Ok(flow.into_report())
    }
}

/// Holds what is the same in the whole run.
#[derive(Clone, Copy)]
struct Run<'a> {
    executor: Executor<'a>,
    given: &'a Given<'a>,
}

impl<'a> Run<'a> {
    fn template(
        self,
        template: &'a Template,
        frame: Frame,
        input: Input,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, Result<Flow, ExecuteError>> {
        Box::pin(async move {
            if cancel.is_cancelled() {
                return Err(ExecuteError::Canceled);
            }
            match template {
                Template::Command(line) => {
                    let leaf = leaf::Leaf {
                        line,
                        timeout: None,
                        attempts: 1,
                        label: None,
                    };
                    self.leaf(leaf, &frame, input, &cancel).await
                }
                Template::Sequence(_) => {
                    let steps = group::steps_of(template, &frame);
                    self.sequence(steps, crate::tree::Failure::Continue, frame.root, input, &cancel)
                        .await
                }
                Template::Node(node) => self.node(node, frame, input, &cancel).await,
            }
        })
    }

    /// Returns everything a result has, as input of the next step.
    async fn feed(self, flow: &Flow) -> Result<Input, io::Error> {
        let bytes = self
            .executor
            .launcher
            .read_all(&flow.stdout, self.executor.limits.max_input_bytes)
            .await?;
        Ok(Input::Bytes(bytes.into()))
    }
}
