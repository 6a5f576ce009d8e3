//! Runs groups of steps: one after the other, or at the same time.

use std::collections::VecDeque;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;

use super::flow::{Flow, History};
use super::node::resolve;
use super::{ExecuteError, Run};
use crate::control::Wanted;
use crate::frame::Frame;
use crate::launch::{Input, Stream};
use crate::report::{Branch, BranchFailure, BranchStatus, FailureReason, last_chars};
use crate::tree::{Failure, Node, Template};

/// Is one member of a group.
pub(super) enum Step<'a> {
    Template { template: &'a Template, frame: Frame },
    Copy { node: &'a Node, frame: Frame },
}

impl<'a> Step<'a> {
    fn failure(&self) -> Failure {
        match self {
            Step::Template { template, .. } => template.own_failure(),
            Step::Copy { node, .. } => node.failure,
        }
    }

    fn label(&self) -> Option<&str> {
        match self {
            Step::Template { template, .. } => template.label(),
            Step::Copy { node, .. } => node.label.as_deref(),
        }
    }

    async fn run(self, run: Run<'a>, input: Input, cancel: &CancellationToken) -> Result<Flow, ExecuteError> {
        if cancel.is_cancelled() {
            return Err(ExecuteError::Canceled);
        }
        match self {
            Step::Template { template, frame } => run.template(template, frame, input, cancel.clone()).await,
            Step::Copy { node, frame } => run.copy(node, frame, input, cancel.clone()).await,
        }
    }
}

pub(super) fn steps_of<'a>(body: &'a Template, frame: &Frame) -> Vec<Step<'a>> {
    let inside = frame.inside();
    match body {
        Template::Sequence(steps) => steps
            .iter()
            .map(|template| Step::Template {
                template,
                frame: inside.clone(),
            })
            .collect(),
        single => vec![Step::Template {
            template: single,
            frame: inside,
        }],
    }
}

impl<'a> Run<'a> {
    pub(super) async fn sequence(
        self,
        steps: Vec<Step<'a>>,
        own_failure: Failure,
        root: bool,
        input: Input,
        cancel: &CancellationToken,
    ) -> Result<Flow, ExecuteError> {
        let count = steps.len();
        let mut least = own_failure;
        if root && count == 1 {
            least = Failure::Root;
        }
        let mut history = History::default();
        let mut next = input;
        let mut result = None;
        for (index, step) in steps.into_iter().enumerate() {
            let step_failure = step.failure();
            let mut flow = step.run(self, next, cancel).await?;
            history.absorb(&mut flow);
            next = Input::Bytes(Vec::new().into());
            if flow.failed() {
                let scope = flow.scope.max(step_failure).max(least);
                if flow.out_of_time || scope == Failure::Root {
                    flow.scope = scope;
                    flow.preceded_by(history);
                    return Ok(flow);
                }
                history.record(&flow);
                if scope == Failure::Branch {
                    flow.scope = scope;
                    flow.preceded_by(history);
                    return Ok(flow);
                }
                flow.forgive();
            } else if index + 1 < count {
                match self.feed(&flow).await {
                    Ok(fed) => next = fed,
                    Err(error) => {
                        let mut broken = Flow::broken_pipe(&error);
                        broken.preceded_by(history);
                        return Ok(broken);
                    }
                }
            }
            result = Some(flow);
        }
        let mut flow = result.ok_or(ExecuteError::NoSteps)?;
        flow.preceded_by(history);
        Ok(flow)
    }

    pub(super) async fn parallel(
        self,
        steps: Vec<Step<'a>>,
        node: &Node,
        frame: &Frame,
        input: Input,
        cancel: &CancellationToken,
    ) -> Result<Flow, ExecuteError> {
        let count = steps.len();
        if count == 0 {
            return Err(ExecuteError::NoSteps);
        }
        let concurrency = resolve(
            node.concurrency.as_ref(),
            "concurrency",
            Wanted::Positive,
            frame,
            self,
        )?;
        let workers = concurrency
            .map_or(count, |n| (n.min(count as f64)) as usize)
            .max(1);
        let minimum = resolve(
            node.min_successful.as_ref(),
            "min_successful",
            Wanted::Count,
            frame,
            self,
        )?;
        let minimum = minimum.map(|n| n as u64);
        if let Some(wanted) = minimum.filter(|wanted| *wanted > count as u64) {
            return Err(ExecuteError::Quorum {
                wanted,
                branches: count,
            });
        }
        let shape: Vec<(String, Failure)> = steps
            .iter()
            .enumerate()
            .map(|(at, step)| {
                (
                    step.label()
                        .map_or_else(|| format!("branch {}", at + 1), str::to_owned),
                    step.failure(),
                )
            })
            .collect();
        let flows = self.all(steps, workers, input, cancel).await?;
        Ok(join(flows, &shape, node.failure, minimum))
    }

    /// Runs all steps with so many workers; after an error the rest is ended and awaited before the error is returned.
    async fn all(
        self,
        steps: Vec<Step<'a>>,
        workers: usize,
        input: Input,
        cancel: &CancellationToken,
    ) -> Result<Vec<Flow>, ExecuteError> {
        type Numbered<'f> = BoxFuture<'f, (usize, Result<Flow, ExecuteError>)>;
        let siblings = cancel.child_token();
        let mut results: Vec<Option<Flow>> = steps.iter().map(|_| None).collect();
        let mut waiting: VecDeque<(usize, Step<'a>)> = steps.into_iter().enumerate().collect();
        let mut running: FuturesUnordered<Numbered<'_>> = FuturesUnordered::new();
        let mut failure = None;
        loop {
            while failure.is_none() && running.len() < workers {
                let Some((at, step)) = waiting.pop_front() else {
                    break;
                };
                let (input, siblings) = (input.clone(), siblings.clone());
                running.push(Box::pin(
                    async move { (at, step.run(self, input, &siblings).await) },
                ));
            }
            match running.next().await {
                None => break,
                Some((at, Ok(flow))) => {
                    if let Some(slot) = results.get_mut(at) {
                        *slot = Some(flow);
                    }
                }
                Some((_, Err(error))) => {
                    siblings.cancel();
                    failure.get_or_insert(error);
                }
            }
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(results.into_iter().flatten().collect()),
        }
    }
}

/// Joins the branches of a parallel group in the order of their declaration.
fn join(flows: Vec<Flow>, shape: &[(String, Failure)], own_failure: Failure, minimum: Option<u64>) -> Flow {
    let expected = flows.len();
    let usable = flows.iter().filter(|flow| flow.usable()).count();
    let met = minimum.is_none_or(|minimum| usable as u64 >= minimum);
    let mut lines = Vec::new();
    if let Some(minimum) = minimum {
        let status = match (usable == expected, met) {
            (true, _) => "complete",
            (false, true) => "degraded",
            (false, false) => "insufficient_data",
        };
        lines.push(format!(
            "--- parallel_status: {status} usable: {usable} expected: {expected} minimum: {minimum} ---"
        ));
    }
    let mut history = History::default();
    let mut outer = Vec::new();
    let mut stderrs = Vec::new();
    let mut joined = Flow::default();
    let (mut first_failure, mut root_failure, mut failed) = (None, None, 0_usize);
    for (mut flow, (label, failure)) in flows.into_iter().zip(shape) {
        history.absorb(&mut flow);
        outer.push(branch_report(label, &flow));
        lines.push(branch_text(label, &flow));
        let stderr = flow.stderr.text();
        if !stderr.is_empty() {
            stderrs.push(stderr);
        }
        joined.stdout_bytes += flow.stdout_bytes;
        joined.last_command = flow.last_command.clone().or(joined.last_command);
        joined.out_of_time |= flow.out_of_time;
        if flow.failed() {
            failed += 1;
            first_failure.get_or_insert(flow.code);
            let scope = flow.scope.max(*failure).max(own_failure);
            if scope == Failure::Root || flow.out_of_time {
                if root_failure.is_none() {
                    root_failure = Some(Flow {
                        scope: Failure::Root,
                        ..flow
                    });
                }
            } else {
                history.record(&flow);
            }
        }
    }
    history.branches.append(&mut outer);
    if let Some(mut failure) = root_failure {
        failure.preceded_by(history);
        return failure;
    }
    joined.stdout = Stream::complete(lines.join("\n"));
    joined.stderr = Stream::complete(stderrs.join("\n"));
    let quorum_missed = !met && own_failure != Failure::Continue;
    let unusable = minimum.is_none() && own_failure == Failure::Branch && (failed > 0 || usable == 0);
    if quorum_missed || unusable {
        joined.code = first_failure.unwrap_or(1);
        joined.scope = own_failure;
        joined.reason = Some(match (quorum_missed, usable) {
            (true, _) => FailureReason::ParallelQuorumNotMet,
            (false, 0) => FailureReason::AllBranchesUnusable,
            (false, _) => FailureReason::CommandFailed,
        });
        if let (true, Some(minimum)) = (quorum_missed, minimum) {
            joined.add_to_stderr(&format!(
                "parallel branch quorum not met: usable {usable}/{expected}, minimum {minimum}"
            ));
        }
    }
    joined.preceded_by(history);
    joined
}

fn status_of(flow: &Flow) -> BranchStatus {
    match (flow.failed(), flow.killed) {
        (false, _) => BranchStatus::Done,
        (true, true) => BranchStatus::Timeout,
        (true, false) => BranchStatus::Failed,
    }
}

fn branch_report(label: &str, flow: &Flow) -> Branch {
    let status = status_of(flow);
    let failure = match status {
        BranchStatus::Done if flow.stdout_bytes == 0 => Some(BranchFailure::EmptyOutput),
        BranchStatus::Done => None,
        BranchStatus::Timeout => Some(BranchFailure::TimeoutOrKilled),
        BranchStatus::Failed if flow.stderr.total_bytes == 0 => Some(BranchFailure::NonzeroExitEmptyStderr),
        BranchStatus::Failed => Some(BranchFailure::NonzeroExit),
    };
    Branch {
        label: label.to_owned(),
        status,
        code: flow.code,
        command: flow
            .last_command
            .clone()
            .unwrap_or_else(|| "<template>".to_owned()),
        killed: flow.killed,
        failure,
        stdout: last_chars(&flow.stdout.text()),
        stderr: last_chars(&flow.stderr.text()),
        stdout_bytes: flow.stdout_bytes,
        stderr_bytes: flow.stderr.total_bytes,
        stdout_file: flow.stdout.file.clone(),
        usable: flow.usable(),
    }
}

fn branch_text(label: &str, flow: &Flow) -> String {
    let status = status_of(flow);
    let header = format!("--- branch: {label} status: {} ---", status.word());
    if status == BranchStatus::Done {
        return format!("{header}\n{}", flow.stdout.text());
    }
    let mut text = format!("{header}\nexit: {}", flow.code);
    for (name, content) in [
        ("rejected_stdout", flow.stdout.text()),
        ("stderr", flow.stderr.text()),
    ] {
        if !content.is_empty() {
            text.push_str(&format!("\n{name}: {}", last_chars(&content)));
        }
    }
    text
}
