//! Serving HTTP from an open home.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pentad_engine::EngineHandle;
use pentad_keeper::Secrets;
use pentad_keeper::attach::{HttpAsk, HttpReady};
use pentad_model::invocation::Workspace;
use pentad_model::{Invocation, Name, Outcome, Refusal, RefusalKind, Timestamp};
use pentad_program::{Attachment, Attendance, Environment, Store, Verbs};
use pentad_web::{Access, Attachments, Face, Tokens};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::desk::LocalDesk;
use super::lookup::HomeLookup;

/// Listens, and serves in a task of its own until `closing`.
///
/// # Errors
/// Refuses addresses that are in use or reachable from elsewhere without a configured token.
pub async fn serve(
    desk: &LocalDesk,
    ask: HttpAsk,
    environment: Option<Arc<Environment>>,
    closing: CancellationToken,
) -> Result<HttpReady, Refusal> {
    let config = desk.config();
    let http = &config.http;
    let address = SocketAddr::new(ask.bind.unwrap_or(http.bind), ask.port.unwrap_or(http.port));
    if !address.ip().is_loopback() {
        exposed(&ask, address, http.token.is_some())?;
    }
    let access = if ask.insecure_loopback {
        Access::InsecureLoopback
    } else {
        Access::Tokens(tokens(desk, &ask.clients, environment.as_deref()).await?)
    };
    let fault = |error: &dyn std::fmt::Display| split(&error.to_string());
    let listener = pentad_web::listen(address).await.map_err(|error| fault(&error))?;
    let local = listener.local_addr().map_err(|error| fault(&error))?;
    let ready = HttpReady {
        url: format!("http://{local}"),
        tokens: match &access {
            Access::InsecureLoopback => Vec::new(),
            Access::Tokens(tokens) => tokens.printable(),
        },
    };
    let face = face(desk, access, ask.workspace, environment);
    let serving = pentad_web::serve(listener, face, closing);
    desk.serving.spawn(async move {
        if let Err(error) = serving.await {
            tracing::error!(%error, "HTTP is not served any more");
        }
    });
    Ok(ready)
}

fn exposed(ask: &HttpAsk, address: SocketAddr, has_token: bool) -> Result<(), Refusal> {
    let refuse = |message: String, next: &str| {
        Err(Refusal::new(RefusalKind::Invalid, address.ip().to_string(), message).next_step(next))
    };
    if ask.insecure_loopback {
        return refuse(
            "--insecure-loopback serves loopback only.".to_owned(),
            "leave --bind out",
        );
    }
    if !has_token {
        return refuse(
            format!(
                "{} is reachable from other machines and no token is configured.",
                address.ip()
            ),
            "add token = \"${secret:http}\" to [http] in config.toml and run pentad secret set http, or bind 127.0.0.1",
        );
    }
    Ok(())
}

/// Turns a text with a next step into a refusal.
fn split(text: &str) -> Refusal {
    let (message, next) = text.split_once("\nNext: ").unwrap_or((text, ""));
    let refusal = Refusal::new(RefusalKind::Unavailable, "http", format!("{message}."));
    if next.is_empty() {
        refusal
    } else {
        refusal.next_step(next)
    }
}

async fn tokens(
    desk: &LocalDesk,
    more: &[Name],
    environment: Option<&Environment>,
) -> Result<Tokens, Refusal> {
    let config = desk.config();
    let mut clients: Vec<Name> = config.clients.keys().chain(more).cloned().collect();
    clients.sort();
    clients.dedup();
    let fault = |error: &dyn std::fmt::Display| split(&error.to_string());
    let mut tokens = Tokens::generate(clients).map_err(|error| fault(&error))?;
    if let Some(template) = config.http.token.clone() {
        let lookup = HomeLookup {
            secrets: Secrets::of(&desk.home),
            face: environment.map_or_else(|| desk.variables.own().clone(), |sent| sent.0.clone()),
            spawner: Arc::clone(&desk.spawner),
            runtime: Handle::current(),
        };
        let resolved = tokio::task::spawn_blocking(move || template.resolve(&lookup)).await;
        let value = resolved
            .map_err(|error| fault(&error))?
            .map_err(|error| fault(&error))?;
        tokens.add_person(value.reveal()).map_err(|error| fault(&error))?;
    }
    Ok(tokens)
}

fn face(
    desk: &LocalDesk,
    access: Access,
    workspace: Workspace,
    environment: Option<Arc<Environment>>,
) -> Face {
    let config = desk.config();
    let limits = &config.limits;
    let projects = config.projects.iter().filter_map(|(path, project)| {
        let name = project.workspace.clone()?;
        let workspace = Workspace {
            cwd: path.clone(),
            project_root: Some(path.clone()),
            trusted: project.trusted_hash.is_some(),
        };
        Some((name, workspace))
    });
    Face {
        verbs: Arc::new(OnBehalf {
            verbs: desk.verbs.clone(),
            environment,
        }),
        store: Arc::clone(&desk.store),
        runs: Arc::clone(&desk.runs),
        attachments: Arc::new(Kept {
            store: Arc::clone(&desk.store),
            cap: limits.attachment_bytes,
        }),
        access,
        hosts: config.http.hosts.clone(),
        workspace,
        workspaces: projects.collect(),
        state_key: Some(super::state_key(&desk.home)),
        uploads: desk.home.cache(),
        body_bytes: limits.body_bytes,
        attachment_bytes: limits.attachment_bytes,
        heartbeat: Duration::from_secs(15),
        drain: Duration::from_secs(5),
    }
}

/// Verbs whose calls have the variables of whoever asked for HTTP to be served.
struct OnBehalf {
    verbs: EngineHandle,
    environment: Option<Arc<Environment>>,
}

#[async_trait]
impl Verbs for OnBehalf {
    async fn invoke(&self, invocation: Invocation, mut attendance: Attendance) -> Outcome {
        attendance.environment = self.environment.clone();
        self.verbs.invoke(invocation, attendance).await
    }
}

/// Keeps attachments in the journal's blobs.
struct Kept {
    store: Arc<dyn Store>,
    cap: u64,
}

#[async_trait]
impl Attachments for Kept {
    async fn attach(
        &self,
        file: &Path,
        name: Option<String>,
        mime: Option<String>,
    ) -> Result<Attachment, Refusal> {
        let _ = mime; // the content decides, as it does everywhere else
        pentad_space::attach_file(&*self.store, file, name.as_deref(), self.cap, Timestamp::now()).await
    }
}
