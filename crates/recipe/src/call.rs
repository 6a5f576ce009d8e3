//! Calls one recipe.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pentad_model::{Refusal, RefusalKind};
use pentad_program::{Content, StreamCapture, ToolCall, ToolFailure, ToolOutput};
use pentad_template::{
    ExecuteError, Executor, Input, Limits, Pattern, Report, Stream, SystemClock, Template, Values,
};
use serde_json::Value;

use crate::file::Lambda;
use crate::launch::{Job, LONGEST_CALL, Launchers, site};
use crate::recipe::{Body, Recipe};

pub(crate) async fn call(
    recipe: &Recipe,
    launchers: &dyn Launchers,
    call: ToolCall,
) -> Result<ToolOutput, ToolFailure> {
    let template = match &recipe.body {
        Body::Template { template, .. } => template,
        Body::Lambda(lambda) => return Err(lambda_refusal(recipe, lambda).into()),
    };
    if recipe.fields.disabled {
        let refusal = Refusal::new(
            RefusalKind::Forbidden,
            &recipe.name,
            format!("Tool \"{}\" is disabled.", recipe.name),
        );
        return Err(refusal
            .next_step("Remove disabled from its file to use it.")
            .into());
    }
    let values = recipe.accept(&Value::Object(call.input.clone()))?;
    let job = Job {
        run: call.run,
        run_dir: call.run_dir.clone(),
        workspace: call.workspace.clone(),
        caller: call.caller.clone(),
        env: recipe.fields.env.clone(),
        environment: call.attendance.environment.clone(),
        leaves_processes: recipe.fields.leaves_processes,
    };
    let opened = launchers.open(&job)?;
    let site = site(&opened, &call.workspace.cwd, recipe.place.dir());
    let clock = SystemClock::default();
    let executor = Executor {
        launcher: opened.launcher.as_ref(),
        clock: &clock,
        site: &site,
        limits: Limits::default(),
    };
    let report = run(executor, template, &values, &call).await?;
    Ok(output(recipe, &values, &call.workspace.cwd, &report))
}

/// Runs the template within the limit of the call; when the limit is reached, everything is ended before this returns.
async fn run(
    executor: Executor<'_>,
    template: &Template,
    values: &Values,
    call: &ToolCall,
) -> Result<Report, ToolFailure> {
    let ending = call.attendance.cancel.child_token();
    let limit = call.time_limit.unwrap_or(LONGEST_CALL);
    let mut running = Box::pin(executor.run(template, values, Input::None, &ending));
    let mut timed_out = false;
    let ended = tokio::select! {
        ended = &mut running => ended,
        () = tokio::time::sleep(limit) => {
            timed_out = true;
            ending.cancel();
            running.await
        }
    };
    match ended {
        Ok(report) => Ok(report),
        Err(ExecuteError::Canceled) if timed_out => Err(ToolFailure::TimedOut {
            limit: format!("call limit {} s", limit.as_secs_f64()),
            after_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
        }),
        Err(ExecuteError::Canceled) => Err(ToolFailure::Canceled),
        Err(error) => Err(ToolFailure::Failed(error.to_string())),
    }
}

fn lambda_refusal(recipe: &Recipe, lambda: &Lambda) -> Refusal {
    let message = format!(
        "Tool \"{}\" is authored {} code, and this Pentad has no host that runs code of tools. It was not started.",
        recipe.name, lambda.runtime
    );
    Refusal::new(RefusalKind::NotAvailable, &recipe.name, message).next_step(
        "Put the code into a file beside the recipe and give it a template that runs it, for example \"node {recipe_dir}/tool.js {input}\".",
    )
}

fn output(recipe: &Recipe, values: &Values, cwd: &Path, report: &Report) -> ToolOutput {
    let mut streams = BTreeMap::new();
    for (name, stream) in [("stdout", &report.stdout), ("stderr", &report.stderr)] {
        if stream.total_bytes > 0 {
            streams.insert(name.to_owned(), capture(stream));
        }
    }
    let notable = !report.is_success() || !report.branches.is_empty() || !report.non_critical.is_empty();
    ToolOutput {
        is_error: !report.is_success(),
        content: vec![Content::Text(report.text())],
        structured: notable.then(|| report.details()),
        streams,
        artifacts: artifacts(recipe, values, cwd),
    }
}

fn capture(stream: &Stream) -> StreamCapture {
    let text = stream.text();
    let total_lines = u64::try_from(text.lines().count()).unwrap_or(u64::MAX);
    StreamCapture {
        total_bytes: stream.total_bytes,
        total_lines,
        file: stream.file.clone(),
        truncated: stream.truncated && stream.file.is_none(),
        text,
    }
}

/// Returns the declared artifacts whose files exist now.
fn artifacts(recipe: &Recipe, values: &Values, cwd: &Path) -> BTreeMap<String, PathBuf> {
    let mut known = values.clone();
    for parameter in &recipe.interface.parameters {
        if let (false, Some(default)) = (known.contains_key(&parameter.name), &parameter.default) {
            known.insert(parameter.name.clone(), default.clone());
        }
    }
    let existing = recipe.fields.artifacts.iter().filter_map(|(name, path)| {
        let path = cwd.join(Pattern::read(path).fill(&known, "artifact").ok()?);
        path.exists().then(|| (name.clone(), path))
    });
    existing.collect()
}
