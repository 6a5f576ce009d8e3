//! From what a tool returned to a settled run and a product.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::PoisonError;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use pentad_model::outcome::{Part, Product};
use pentad_model::run::{RunError, RunStatus, Stored};
use pentad_model::text::visible;
use pentad_model::{Refusal, RunId, Timestamp, ToolDocument};
use pentad_program::{Attachment, BlobRef, Content, RunChange, Store, StoreError, ToolFailure, ToolOutput};
use serde_json::{Value, json};

use super::execute::status_event;
use crate::Engine;
use crate::invoke::{Context, store_refusal};

/// Texts up to this size stand in the run's record; longer ones become blobs.
const INLINE_BYTES: usize = 64 * 1024;
/// Images up to this size travel with the result; larger ones are read by their address.
const IMAGE_BYTES: usize = 4_500_000;

/// Settles a run whose tool ended, and returns what its caller sees.
pub(crate) async fn settle(
    engine: &Engine,
    context: &Context,
    run: RunId,
    document: &ToolDocument,
    result: Result<ToolOutput, ToolFailure>,
) -> Result<Product, Refusal> {
    match result {
        Ok(output) => returned(engine, context, run, document, output).await,
        Err(failure) => failed(engine, context, run, failure),
    }
}

/// Settles a run that was refused before it began.
pub(crate) fn refused(context: &Context, run: RunId, refusal: &Refusal) {
    let error = RunError {
        code: "refused".to_owned(),
        message: refusal.message.clone(),
    };
    let settled = Settled {
        error: Some(error),
        ..Settled::default()
    };
    change(context, run, RunStatus::Failed, settled);
}

/// What a settlement adds to the run.
#[derive(Default)]
struct Settled {
    output: Option<Value>,
    error: Option<RunError>,
    stored: BTreeMap<String, Stored>,
}

/// Leaves the settlement to be written with the invocation's answer, in one transaction.
fn change(context: &Context, run: RunId, status: RunStatus, settled: Settled) {
    let event = status_event(context, run, status, settled.error.clone());
    let change = RunChange {
        id: run,
        status,
        output: settled.output,
        error: settled.error,
        stored: settled.stored,
        at: Timestamp::now(),
    };
    *context.settlement.lock().unwrap_or_else(PoisonError::into_inner) = Some((change, event));
}

async fn returned(
    engine: &Engine,
    context: &Context,
    run: RunId,
    document: &ToolDocument,
    output: ToolOutput,
) -> Result<Product, Refusal> {
    let mut gathered = gather(engine, document, &output)
        .await
        .map_err(|e| store_refusal(&e))?;
    gathered.text = engine.parts.redactor.text(gathered.text);
    let structured = output.structured.map(|value| engine.parts.redactor.value(value));
    let mut settled = Settled {
        stored: gathered.stored,
        ..Settled::default()
    };
    if gathered.text.len() > INLINE_BYTES && !settled.stored.contains_key("stdout") {
        let stored = store_text(&*engine.parts.store, &gathered.text)
            .await
            .map_err(|e| store_refusal(&e))?;
        settled.stored.insert("output".to_owned(), stored);
    }
    let inline = (gathered.text.len() <= INLINE_BYTES).then_some(&gathered.text);
    let small = structured
        .as_ref()
        .filter(|v| v.to_string().len() <= INLINE_BYTES);
    settled.output = Some(json!({"text": inline, "structured": small}));
    let status = if output.is_error {
        settled.error = Some(RunError {
            code: "tool".to_owned(),
            message: last_line(&gathered.text),
        });
        RunStatus::Failed
    } else {
        RunStatus::Succeeded
    };
    change(context, run, status, settled);
    Ok(Product {
        failed: output.is_error,
        value: structured,
        parts: gathered.parts,
        run: Some(run),
        total: gathered.total,
        ..Product::text(gathered.text, format!("run:{run}/output"))
    })
}

fn failed(engine: &Engine, context: &Context, run: RunId, failure: ToolFailure) -> Result<Product, Refusal> {
    let (status, code) = match &failure {
        ToolFailure::Refused(_) => (RunStatus::Failed, "refused"),
        ToolFailure::Canceled => (RunStatus::Canceled, "canceled"),
        ToolFailure::TimedOut { .. } => (RunStatus::Failed, "timeout"),
        ToolFailure::Interrupted(_) => (RunStatus::Failed, "interrupted"),
        ToolFailure::Failed(_) => (RunStatus::Failed, "failed"),
    };
    let message = engine.parts.redactor.text(visible(&failure.to_string()));
    let error = RunError {
        code: code.to_owned(),
        message: message.clone(),
    };
    let settled = Settled {
        error: Some(error),
        ..Settled::default()
    };
    change(context, run, status, settled);
    if let ToolFailure::Refused(refusal) = failure {
        return Err(refusal);
    }
    let text = match &failure {
        ToolFailure::Interrupted(_) => format!(
            "{message}\nNobody knows whether it took effect: check before you repeat it. The record is run:{run}."
        ),
        _ => message,
    };
    Ok(Product {
        failed: true,
        run: Some(run),
        value: Some(json!({"error": {"code": code}})),
        ..Product::text(text, format!("run:{run}"))
    })
}

fn last_line(text: &str) -> String {
    let line = text
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("the tool reported an error");
    pentad_model::text::excerpt(line.trim(), 400)
}

#[derive(Default)]
struct Gathered {
    text: String,
    parts: Vec<Part>,
    stored: BTreeMap<String, Stored>,
    /// Size of the whole text where `text` is only its head and tail.
    total: Option<(u64, u64)>,
}

async fn gather(
    engine: &Engine,
    document: &ToolDocument,
    output: &ToolOutput,
) -> Result<Gathered, StoreError> {
    let store = &*engine.parts.store;
    let mut gathered = Gathered::default();
    for content in &output.content {
        add_content(store, document, content, &mut gathered).await?;
    }
    if gathered.text.is_empty()
        && let Some(structured) = &output.structured
    {
        gathered.text = format!("{structured:#}");
    }
    for (name, capture) in &output.streams {
        let Some(file) = &capture.file else { continue };
        let blob = put_masked(engine, file).await?;
        let stored = Stored {
            blob: blob.hash,
            bytes: blob.bytes,
            lines: capture.total_lines,
            mime: "text/plain".to_owned(),
            truncated: capture.truncated,
        };
        gathered.stored.insert(name.clone(), stored);
        if name == "stdout" {
            gathered.total = Some((capture.total_bytes, capture.total_lines));
        }
    }
    for (name, path) in &output.artifacts {
        let blob = store.put_file(path).await?;
        let mime = mime_of(path);
        let stored = Stored {
            blob: blob.hash,
            bytes: blob.bytes,
            lines: 0,
            mime,
            truncated: false,
        };
        gathered.stored.insert(name.clone(), stored);
    }
    Ok(gathered)
}

/// Keeps a captured stream. It is searched, and copied where something must be masked, off the tasks that wait for others.
async fn put_masked(engine: &Engine, file: &Path) -> Result<BlobRef, StoreError> {
    let (redactor, path) = (engine.parts.redactor.clone(), file.to_owned());
    let failed = |why: String| StoreError::NotWritten(format!("{}: {why}", file.display()));
    let masked = tokio::task::spawn_blocking(move || redactor.file(&path))
        .await
        .map_err(|e| failed(e.to_string()))?
        .map_err(|e| failed(e.to_string()))?;
    let store = &engine.parts.store;
    let Some(masked) = masked else {
        return store.put_file(file).await;
    };
    let kept = store.put_file(&masked).await;
    // The store moves files of its own folder and copies others; neither is of use any more.
    for spent in [masked.as_path(), file] {
        match tokio::fs::remove_file(spent).await {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(file = %spent.display(), %error, "a captured stream could not be removed");
            }
            _ => {}
        }
    }
    kept
}

fn mime_of(path: &Path) -> String {
    mime_guess::from_path(path)
        .first_raw()
        .unwrap_or("application/octet-stream")
        .to_owned()
}

async fn add_content(
    store: &dyn Store,
    document: &ToolDocument,
    content: &Content,
    gathered: &mut Gathered,
) -> Result<(), StoreError> {
    match content {
        Content::Text(text) => push_text(&mut gathered.text, text),
        Content::Image { mime, data } => {
            let (cid, data) = attach(store, mime, data).await?;
            push_text(&mut gathered.text, &format!("[image {mime}: attachment:{cid}]"));
            gathered.parts.push(Part::Image {
                cid,
                mime: mime.clone(),
                data,
            });
        }
        Content::Audio { mime, data } => {
            let (cid, data) = attach(store, mime, data).await?;
            push_text(&mut gathered.text, &format!("[audio {mime}: attachment:{cid}]"));
            gathered.parts.push(Part::Audio {
                cid,
                mime: mime.clone(),
                data,
            });
        }
        Content::Resource {
            uri,
            mime,
            data,
            text,
        } => {
            let address = format!("mcp:{}/{uri}", document.tool.source);
            match std::str::from_utf8(data) {
                Ok(body) if *text => push_text(&mut gathered.text, &format!("[resource {address}]\n{body}")),
                _ => {
                    let mime = mime.as_deref().unwrap_or("application/octet-stream");
                    let (cid, _) = attach(store, mime, data).await?;
                    push_text(
                        &mut gathered.text,
                        &format!("[resource {address} {mime}: attachment:{cid}]"),
                    );
                    gathered.parts.push(Part::Link {
                        address: format!("attachment:{cid}"),
                        title: Some(uri.clone()),
                    });
                }
            }
        }
        Content::Link { uri, title, mime } => {
            let address = format!("mcp:{}/{uri}", document.tool.source);
            let label = title.as_deref().unwrap_or(uri);
            let mime = mime.as_deref().map(|m| format!(" ({m})")).unwrap_or_default();
            push_text(&mut gathered.text, &format!("[link {label}{mime}: {address}]"));
            gathered.parts.push(Part::Link {
                address,
                title: title.clone(),
            });
        }
    }
    Ok(())
}

fn push_text(text: &mut String, more: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(more);
}

async fn store_text(store: &dyn Store, text: &str) -> Result<Stored, StoreError> {
    let blob = store.put_blob(Bytes::from(text.to_owned())).await?;
    let lines = text.lines().count() as u64;
    Ok(Stored {
        blob: blob.hash,
        bytes: blob.bytes,
        lines,
        mime: "text/plain".to_owned(),
        truncated: false,
    })
}

/// Keeps bytes as an attachment; small images also travel with the result.
async fn attach(store: &dyn Store, mime: &str, data: &[u8]) -> Result<(String, Option<String>), StoreError> {
    let bytes = store.put_blob(Bytes::copy_from_slice(data)).await?.bytes;
    let cid = pentad_model::canonical::raw_cid(data);
    let record = Attachment {
        cid: cid.clone(),
        name: None,
        mime: mime.to_owned(),
        bytes,
        created_at: Timestamp::now(),
    };
    store.put_attachment(record).await?;
    Ok((cid, (data.len() <= IMAGE_BYTES).then(|| STANDARD.encode(data))))
}
