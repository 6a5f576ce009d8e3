//! Runs a node: waiting, guard, repetition, attempts, time limit, output.

use std::time::Duration;

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::flow::{Flow, History};
use super::group::{Step, steps_of};
use super::leaf::Leaf;
use super::{ExecuteError, Run};
use crate::control::{Control, Wanted, repeat_values};
use crate::error::ExpandError;
use crate::frame::Frame;
use crate::launch::{Input, Stream};
use crate::tree::{Failure, Node, Output, Template};

const EVIDENCE_MARKER: &str = "ACTOR_REVIEW_RESULT";
const CODE_DATA: i32 = 65;

impl<'a> Run<'a> {
    pub(super) async fn node(
        self,
        node: &'a Node,
        frame: Frame,
        input: Input,
        cancel: &CancellationToken,
    ) -> Result<Flow, ExecuteError> {
        let frame = frame.enter(node);
        if !self.admitted(node, &frame, cancel).await? {
            return Ok(Flow::passed(input.bytes()));
        }
        match &node.repeat {
            None => self.admitted_node(node, frame, input, cancel).await,
            Some(repeat) => {
                let count = repeat
                    .resolve(&frame.list_scope(self.given))?
                    .ok_or(ExpandError::RepeatUnresolved)?;
                self.copies(node, count, frame, input, cancel).await
            }
        }
    }

    /// Runs one copy of a repeated node; its own delay and guard apply to each copy too.
    pub(super) fn copy(
        self,
        node: &'a Node,
        frame: Frame,
        input: Input,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, Result<Flow, ExecuteError>> {
        Box::pin(async move {
            if !self.admitted(node, &frame, &cancel).await? {
                return Ok(Flow::passed(input.bytes()));
            }
            self.admitted_node(node, frame, input, &cancel).await
        })
    }

    async fn admitted(
        self,
        node: &Node,
        frame: &Frame,
        cancel: &CancellationToken,
    ) -> Result<bool, ExecuteError> {
        let scope = frame.scope(self.given);
        if let Some(delay) = self.millis(node.delay.as_ref(), "delay", frame)? {
            let remaining = frame
                .deadline
                .map(|deadline| deadline.saturating_sub(self.executor.clock.now()));
            let delay = remaining.map_or(delay, |remaining| remaining.min(delay));
            tokio::select! {
                () = cancel.cancelled() => return Err(ExecuteError::Canceled),
                () = self.executor.clock.sleep(delay) => {}
            }
        }
        match &node.when {
            Some(when) => Ok(when.holds(&scope)?),
            None => Ok(true),
        }
    }

    async fn copies(
        self,
        node: &'a Node,
        count: u32,
        frame: Frame,
        input: Input,
        cancel: &CancellationToken,
    ) -> Result<Flow, ExecuteError> {
        let limits = self.executor.limits;
        if node.parallel && count > limits.max_parallel_branches {
            return Err(ExecuteError::FanOut {
                count,
                limit: limits.max_parallel_branches,
            });
        }
        if count > limits.max_repeat {
            return Err(ExecuteError::TooMany {
                field: "repeat",
                count: count.into(),
                limit: limits.max_repeat,
            });
        }
        let inside = frame.inside();
        let steps = (0..count)
            .map(|index| Step::Copy {
                node,
                frame: inside.with_defaults(repeat_values(index, count)),
            })
            .collect();
        if node.parallel {
            self.parallel(steps, node, &frame, input, cancel).await
        } else {
            self.sequence(steps, node.failure, frame.root, input, cancel)
                .await
        }
    }

    async fn admitted_node(
        self,
        node: &'a Node,
        frame: Frame,
        input: Input,
        cancel: &CancellationToken,
    ) -> Result<Flow, ExecuteError> {
        let scope = frame.scope(self.given);
        let attempts = resolve(node.retry.as_ref(), "retry", Wanted::Positive, &frame, self)?.unwrap_or(1.0);
        let limit = self.executor.limits.max_attempts;
        if attempts > f64::from(limit) {
            return Err(ExecuteError::TooMany {
                field: "retry",
                count: attempts as u64,
                limit,
            });
        }
        let attempts = attempts as u32;
        let timeout = self
            .millis(node.timeout.as_ref(), "timeout", &frame)?
            .filter(|limit| !limit.is_zero());
        let mut flow = match &node.body {
            Template::Command(line) if node.recover.is_none() => {
                let leaf = Leaf {
                    line,
                    timeout,
                    attempts,
                    label: node.label.as_deref(),
                };
                self.leaf(leaf, &frame, input, cancel).await?
            }
            _ => {
                self.attempts(node, attempts, timeout, &frame, input, cancel)
                    .await?
            }
        };
        if node.accept_review_evidence && !flow.failed() {
            self.check_evidence(&mut flow).await;
        }
        if !flow.failed() {
            match &node.output {
                Output::Stdout => {}
                Output::Stderr => {
                    flow.stdout = flow.stderr.clone();
                    flow.stdout_bytes = flow.stdout.total_bytes;
                }
                Output::Text(pattern) => {
                    flow.stdout = Stream::complete(pattern.fill(&scope, "output")?);
                    flow.stdout_bytes = flow.stdout.total_bytes;
                }
            }
        }
        Ok(flow)
    }

    /// Runs a node until an attempt succeeds; `recover` reads what a failed attempt wrote.
    async fn attempts(
        self,
        node: &'a Node,
        attempts: u32,
        timeout: Option<Duration>,
        frame: &Frame,
        input: Input,
        cancel: &CancellationToken,
    ) -> Result<Flow, ExecuteError> {
        let mut history = History::default();
        for attempt in 1..=attempts {
            let mut flow = self.attempt(node, timeout, frame, input.clone(), cancel).await?;
            let last = !flow.failed() || flow.out_of_time || attempt == attempts;
            if last {
                flow.preceded_by(history);
                return Ok(flow);
            }
            history.absorb(&mut flow);
            history.record(&flow);
            if let Some(recover) = &node.recover {
                let mut recovered = match self.feed(&flow).await {
                    Ok(input) => {
                        self.template(recover, frame.inside(), input, cancel.clone())
                            .await?
                    }
                    Err(error) => Flow::broken_pipe(&error),
                };
                if recovered.failed() {
                    recovered.scope = if recover.own_failure() == Failure::Continue {
                        Failure::Root
                    } else {
                        recovered.scope.max(recover.own_failure())
                    };
                    history.absorb(&mut recovered);
                    history.record(&recovered);
                    recovered.preceded_by(history);
                    return Ok(recovered);
                }
                history.absorb(&mut recovered);
            }
        }
        Err(ExecuteError::NoSteps)
    }

    async fn attempt(
        self,
        node: &'a Node,
        timeout: Option<Duration>,
        frame: &Frame,
        input: Input,
        cancel: &CancellationToken,
    ) -> Result<Flow, ExecuteError> {
        let mut frame = frame.clone();
        let outer = frame.deadline;
        let own = timeout.map(|limit| self.executor.clock.now() + limit);
        frame.deadline = [outer, own].into_iter().flatten().min();
        let mut flow = match &node.body {
            Template::Sequence(_) if node.parallel => {
                let steps = steps_of(&node.body, &frame);
                self.parallel(steps, node, &frame, input, cancel).await?
            }
            Template::Sequence(_) => {
                let steps = steps_of(&node.body, &frame);
                self.sequence(steps, node.failure, frame.root, input, cancel)
                    .await?
            }
            Template::Command(line) => {
                let leaf = Leaf {
                    line,
                    timeout,
                    attempts: 1,
                    label: node.label.as_deref(),
                };
                self.leaf(leaf, &frame, input, cancel).await?
            }
            Template::Node(_) => {
                self.template(&node.body, frame.clone(), input, cancel.clone())
                    .await?
            }
        };
        // The limit that ran out is this node's own: from here on it is an ordinary failure.
        if let (true, Some(limit)) = (flow.out_of_time, timeout)
            && frame.deadline == own
        {
            flow.out_of_time = outer.is_some_and(|outer| self.executor.clock.now() >= outer);
            flow.add_to_stderr(&format!("Time limit of {} ms reached.", limit.as_millis()));
        }
        Ok(flow)
    }

    async fn check_evidence(self, flow: &mut Flow) {
        let first_line = match self.feed(flow).await {
            Ok(input) => {
                let text = String::from_utf8_lossy(input.bytes()).into_owned();
                text.lines()
                    .map(str::trim)
                    .find(|line| !line.is_empty())
                    .map(str::to_owned)
            }
            Err(_) => None,
        };
        if first_line.as_deref() != Some(EVIDENCE_MARKER) {
            flow.code = CODE_DATA;
            flow.add_to_stderr(&format!(
                "The output is no review evidence: its first line must be {EVIDENCE_MARKER}."
            ));
        }
    }

    fn millis(
        self,
        control: Option<&Control>,
        field: &'static str,
        frame: &Frame,
    ) -> Result<Option<Duration>, ExecuteError> {
        let millis = resolve(control, field, Wanted::NonNegative, frame, self)?;
        // More than a century is as good as no limit, and cannot overflow a clock.
        Ok(millis.map(|millis| Duration::from_secs_f64(millis.min(4.0e12) / 1000.0)))
    }
}

pub(super) fn resolve(
    control: Option<&Control>,
    field: &'static str,
    wanted: Wanted,
    frame: &Frame,
    run: Run<'_>,
) -> Result<Option<f64>, ExecuteError> {
    match control {
        Some(control) => Ok(control.resolve(field, wanted, &frame.scope(run.given))?),
        None => Ok(None),
    }
}
