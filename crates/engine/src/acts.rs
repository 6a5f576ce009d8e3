//! From an address to an act that the gate can judge, and to the scene in which a family acts.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pentad_catalog::gate::{Act, Reach, Verdict, input_hash};
use pentad_model::address::RunName;
use pentad_model::grant::{Grant, GrantVerb};
use pentad_model::{Address, GrantSet, Refusal, RefusalKind};
use pentad_space::Scene;
use serde_json::Map;
use serde_json::{Value, json};

use crate::Engine;
use crate::invoke::{Context, lexical};

/// How long a family may take to notice that it was cancelled.
const NOTICE: Duration = Duration::from_secs(5);

/// What is wanted of an address.
#[derive(Clone, Copy)]
pub(crate) enum Access<'a> {
    Read(&'a Address),
    Write(&'a Address),
    /// Validation only: nothing is changed, so nobody is asked.
    DryRun(&'a Address),
}

impl<'a> Access<'a> {
    const fn address(self) -> &'a Address {
        match self {
            Self::Read(address) | Self::Write(address) | Self::DryRun(address) => address,
        }
    }
}

/// Returns the target of an address as grants write it.
fn target(address: &Address, cwd: &Path) -> String {
    match address {
        Address::File(path) => format!("file:{}", lexical(cwd, path).display()),
        Address::Web(url) => format!("{}:/{}{}", url.scheme(), url.host_str().unwrap_or(""), url.path()),
        other => other.to_string(),
    }
}

impl Engine {
    /// Judges an access to an address and returns the scene for its family.
    pub(crate) async fn admit(
        &self,
        context: &Context,
        access: Access<'_>,
        content: Option<&Map<String, Value>>,
    ) -> Result<Scene, Refusal> {
        let address = access.address();
        let workspace = &context.workspace.cwd;
        let (target, own) = match (access, address) {
            (Access::Write(_) | Access::DryRun(_), Address::Run(Some(name), _)) => {
                self.steered(context, name).await?
            }
            _ => (target(address, workspace), true),
        };
        let path = match address {
            Address::File(path) => Some(lexical(workspace, path)),
            _ => None,
        };
        let inside = own && path.as_ref().is_none_or(|path| path.starts_with(workspace));
        let verb = match access {
            Access::Read(_) => GrantVerb::Read,
            Access::Write(_) | Access::DryRun(_) => GrantVerb::Write,
        };
        let hash = hash_of(content)?;
        let act = Act {
            verb,
            target: target.clone(),
            reach: if inside { Reach::Own } else { Reach::Outside },
            right: None,
            caller: context.caller.clone(),
            agent: context.agent().clone(),
            thread: context.thread.id,
            run: context.run,
            read_only_trusted: false,
            destructive: false,
            closure_hash: self.closure_of(context, address, &hash),
            input_hash: hash,
            question: self.parts.redactor.text(question(verb, &target, content)),
        };
        match access {
            // Nothing will change, so nobody is asked; what is denied outright stays denied.
            Access::DryRun(_) => {
                if let Verdict::Denied(refusal) = self.parts.gate.would_ask(&act, &context.authority) {
                    return Err(refusal);
                }
            }
            Access::Read(_) | Access::Write(_) => {
                self.judge(context, &act).await?;
            }
        }
        Ok(scene(context, verb, path))
    }

    /// Returns what an approval of an access is bound to: what would be written, and for what a server offers, the server
    /// as it is for this caller.
    fn closure_of(&self, context: &Context, address: &Address, hash: &str) -> String {
        let Address::Mcp { server, .. } = address else {
            return hash.to_owned();
        };
        let source = self.parts.catalog.source(server);
        match source.and_then(|source| source.launch_fingerprint(context.environment())) {
            Some(launch) => pentad_model::canonical::sha256_hex(format!("{hash}\n{launch}").as_bytes()),
            None => hash.to_owned(),
        }
    }

    /// Returns a run that is to be steered, by its id whatever name it was given, and whether it is the caller's own.
    async fn steered(&self, context: &Context, name: &RunName) -> Result<(String, bool), Refusal> {
        let run = self.parts.store.find_run(name.name()).await.map_err(|error| {
            pentad_space::from_store(&format!("run:{name}"), &error)
                .next_step("read run: lists the runs with their ids and names")
        })?;
        let own = run.caller.actor == context.caller.actor;
        Ok((format!("run:{}", run.id), own))
    }

    /// Runs a family's work within the invocation's time; cancelled or late, it gets a moment to end by itself.
    pub(crate) async fn within<T>(
        &self,
        context: &Context,
        work: impl Future<Output = Result<T, Refusal>> + Send,
    ) -> Result<T, Refusal> {
        let cancel = &context.attendance.cancel;
        tokio::pin!(work);
        let refusal = tokio::select! {
            result = &mut work => return result,
            () = cancel.cancelled() => canceled(),
            () = tokio::time::sleep_until(context.until) => {
                cancel.cancel();
                let seconds = context.limit.as_secs_f64();
                Refusal::new(RefusalKind::Timeout, "deadline", format!("The limit of {seconds} s was reached."))
                    .next_step("limits.call_seconds in config.toml raises it")
            }
        };
        tokio::time::timeout(NOTICE, work).await.unwrap_or(Err(refusal))
    }
}

/// Returns the refusal of an act whose call was canceled before it happened.
pub(crate) fn canceled() -> Refusal {
    Refusal::new(RefusalKind::Conflict, "canceled", "This was canceled.")
}

fn file_roots(grants: &GrantSet, verb: GrantVerb) -> Vec<PathBuf> {
    grants
        .iter()
        .filter_map(|grant| match grant {
            Grant::Act { verb: own, target } if *own == verb => match target.split_first() {
                Some((scheme, rest)) if scheme == "file:" => {
                    Some(PathBuf::from(format!("/{}", rest.join("/"))))
                }
                _ => None,
            },
            _ => None,
        })
        .collect()
}

/// What a person reads before approving.
fn question(verb: GrantVerb, target: &str, content: Option<&Map<String, Value>>) -> String {
    let act = Grant::act(verb, target);
    let shown = content
        .map(|c| pentad_model::text::excerpt(&pentad_model::text::visible(&json!(c).to_string()), 2000));
    shown.map_or_else(|| act.to_string(), |shown| format!("{act}\n{shown}"))
}

fn scene(context: &Context, verb: GrantVerb, path: Option<PathBuf>) -> Scene {
    let mut read_roots = vec![context.workspace.cwd.clone()];
    read_roots.extend(context.workspace.project_root.clone());
    read_roots.extend(file_roots(&context.authority.standing, GrantVerb::Read));
    let mut write_roots = file_roots(&context.authority.standing, GrantVerb::Write);
    // The gate allowed this one path; the family opens it beneath its own folder, by handle.
    if let Some(path) = path {
        let root = if path.is_dir() {
            path
        } else {
            path.parent().map_or_else(|| path.clone(), Path::to_path_buf)
        };
        match verb {
            GrantVerb::Write => write_roots.push(root),
            GrantVerb::Read | GrantVerb::Call | GrantVerb::Delegate => read_roots.push(root),
        }
    }
    Scene {
        caller: context.caller.clone(),
        agent: context.agent().clone(),
        thread: context.thread.id,
        run: context.run,
        workspace: context.workspace.clone(),
        read_roots,
        write_roots,
        grants: context.authority.standing.clone(),
        dry_run: false,
        attendance: context.attendance.clone(),
        now: context.now,
    }
}

/// Returns the hash of what would be written; an approval is bound to it.
pub(crate) fn hash_of(content: Option<&Map<String, Value>>) -> Result<String, Refusal> {
    let Some(content) = content else {
        return Ok(String::new());
    };
    input_hash(content).map_err(|e| Refusal::new(RefusalKind::BadRequest, "input", format!("{e}.")))
}
