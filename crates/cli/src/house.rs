//! Everything that a command works with: one home, opened.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use pentad_catalog::Decision;
use pentad_keeper::{
    Calling, Config, Finding, Home, Lookup, SecretName, SecretValue, Secrets, discover_workspace,
};
use pentad_mcp::{FaceLimits, FaceOptions, LazyVerbs};
use pentad_model::approval::Approval;
use pentad_model::invocation::{ThreadChoice, Workspace};
use pentad_model::{Id, IdEnding, Invocation, Name, Refusal, RefusalKind, Timestamp, Verb};
use pentad_program::{Attachment, Readiness, Severity, Store, Verbs};
use pentad_web::Attachments;
use serde_json::{Map, Value};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::args::Globals;
use crate::shell::{calling, prepared_home, thread_choice};
use crate::wire::{self, Lifetime, Opened};

/// What a tool would do.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// For a person: the words of each command, its folder and environment names, and what the gate says.
    pub text: String,
    /// The same as data.
    pub value: Value,
}

/// Knows tools without calling them.
#[async_trait]
pub trait Contracts: Send + Sync {
    /// Returns the input schema of a tool by name or `source/name`, if it is known without starting anything.
    async fn input_schema(&self, tool: &str) -> Option<Value>;

    /// Says what a call would do, without doing any of it.
    ///
    /// # Errors
    /// Refuses unknown tools and input that does not fit.
    async fn explain(
        &self,
        invocation: &Invocation,
        tool: &str,
        input: Map<String, Value>,
    ) -> Result<Explanation, Refusal>;
}

/// One home, opened for one caller.
pub struct House {
    /// The home.
    pub home: Home,
    /// Its configuration.
    pub config: Arc<Config>,
    /// The one way in.
    pub verbs: Arc<dyn Verbs>,
    /// The journal.
    pub store: Arc<dyn Store>,
    /// Knows tools.
    pub contracts: Arc<dyn Contracts>,
    /// Takes attachments.
    pub attachments: Arc<dyn Attachments>,
    /// Who calls.
    pub calling: Calling,
    /// The agent of new threads.
    pub agent: Option<Name>,
    /// The thread to work in.
    pub thread: ThreadChoice,
    /// The folder to work in.
    pub workspace: Workspace,
    opened: Opened,
}

impl House {
    /// Opens the home that the arguments name, for one command.
    ///
    /// # Errors
    /// Fails when the home cannot be used or its configuration is not understood.
    pub async fn open(globals: &Globals) -> anyhow::Result<Self> {
        Self::open_for(globals, Lifetime::Once).await
    }

    /// Opens the home for a face that stays: files are watched.
    ///
    /// # Errors
    /// Fails when the home cannot be used or its configuration is not understood.
    pub async fn open_long(globals: &Globals) -> anyhow::Result<Self> {
        Self::open_for(globals, Lifetime::Long).await
    }

    async fn open_for(globals: &Globals, lifetime: Lifetime) -> anyhow::Result<Self> {
        let home = prepared_home(globals)?;
        let config = Arc::new(Config::load(&home)?);
        let calling = calling();
        let workspace = workspace(globals, &home, &config)?;
        let thread = thread_choice(globals, &calling)?;
        let opened = wire::open(&home, &config, lifetime).await?;
        let store: Arc<dyn Store> = Arc::clone(&opened.journal) as _;
        Ok(Self {
            verbs: Arc::new(opened.verbs.clone()),
            contracts: Arc::new(opened.contracts()),
            attachments: Arc::new(Kept {
                store: Arc::clone(&store),
                cap: config.limits.attachment_bytes,
            }),
            store,
            calling,
            agent: globals.agent.clone(),
            thread,
            workspace,
            home,
            config,
            opened,
        })
    }

    /// Answers an approval on behalf of whoever sits here; the gate refuses everyone but a person.
    ///
    /// # Errors
    /// Refuses unknown and answered approvals, and callers that are no person.
    pub async fn answer(&self, id: &IdEnding, decision: Decision) -> Result<Approval, Refusal> {
        self.opened
            .verbs
            .0
            .gate()
            .answer(id, decision, &self.calling.actor)
            .await
    }

    /// Returns the parts that this house was put together from.
    pub const fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Ends what was started, in order and within limits.
    pub async fn close(self) {
        self.opened.close().await;
    }

    /// Returns what the configuration's references mean.
    pub fn lookup(&self) -> References {
        References(Secrets::of(&self.home))
    }

    /// Returns an invocation by this house's caller, in its thread and folder.
    pub fn invocation(&self, verb: Verb, arguments: Map<String, Value>) -> Invocation {
        Invocation {
            caller: self.calling.actor.clone().into(),
            agent: self.agent.clone(),
            thread: self.thread.clone(),
            run: self.calling.run,
            workspace: self.workspace.clone(),
            verb,
            arguments: Value::Object(arguments),
            deadline: None,
            view_bytes: None,
        }
    }
}

/// Looks references of the configuration up: secrets in the home, variables in this process.
#[derive(Debug)]
pub struct References(Secrets);

impl Lookup for References {
    fn secret(&self, name: &SecretName) -> Option<SecretValue> {
        self.0.get(name).ok().flatten()
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn command(&self, _command: &str) -> Result<String, String> {
        Err("commands run through the spawner only".to_owned())
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

/// Finds the folder to work in, and whether a person trusted the project around it.
fn workspace(globals: &Globals, home: &Home, config: &Config) -> anyhow::Result<Workspace> {
    let agent = globals.agent.clone().unwrap_or_else(Name::main);
    let cwd = std::env::current_dir().ok();
    let home_dir = std::env::home_dir();
    let trusted = |project: &Path| {
        config
            .projects
            .get(project)
            .is_some_and(|p| p.trusted_hash.is_some())
    };
    Ok(discover_workspace(
        home,
        &agent,
        globals.cwd.as_deref(),
        cwd.as_deref(),
        home_dir.as_deref(),
        trusted,
    )?)
}

/// Serves MCP on standard input and output until the client goes away.
///
/// The client is answered at once; the home is opened by the first call, and a home that cannot be opened is that
/// call's refusal.
///
/// # Errors
/// Fails when the arguments name a folder that does not exist.
pub async fn serve_mcp(globals: &Globals, client: Option<Name>) -> anyhow::Result<()> {
    let home = prepared_home(globals)?;
    let calling = calling();
    // A process is one conversation of its own unless a thread is named: clients keep it for as long as they live.
    let thread = match &globals.thread {
        Some(_) => thread_choice(globals, &calling)?,
        None => ThreadChoice::Key(format!("stdio:{}", Id::generate())),
    };
    let config = Config::load(&home).unwrap_or_default();
    let shutdown = CancellationToken::new();
    let options = FaceOptions {
        thread,
        agent: globals.agent.clone(),
        workspace: workspace(globals, &home, &config)?,
        client,
        on_behalf_of: None,
        view_bytes: None,
        limits: FaceLimits::default(),
        shutdown: shutdown.clone(),
    };
    let opened: Arc<OnceCell<Opened>> = Arc::default();
    let verbs = lazy_verbs(&home, &opened);
    let owner = tokio::spawn(async move {
        tokio::select! {
            () = end_on_signal(shutdown.clone()) => {}
            () = crate::parent::gone() => shutdown.cancel(),
        }
    });
    pentad_mcp::serve(verbs, options, tokio::io::stdin(), tokio::io::stdout()).await;
    owner.abort();
    if let Some(opened) = Arc::into_inner(opened).and_then(OnceCell::into_inner) {
        opened.close().await;
    }
    Ok(())
}

fn lazy_verbs(home: &Home, opened: &Arc<OnceCell<Opened>>) -> LazyVerbs {
    let (home, opened) = (home.clone(), Arc::downgrade(opened));
    LazyVerbs::opened_by(move || {
        let (home, opened) = (home.clone(), opened.clone());
        Box::pin(async move {
            let gone = || Refusal::new(RefusalKind::Unavailable, "pentad", "This face is ending.");
            let cell = opened.upgrade().ok_or_else(gone)?;
            let open = || async {
                let config = Config::load(&home)?;
                wire::open(&home, &config, Lifetime::Long).await
            };
            let house = cell
                .get_or_try_init(open)
                .await
                .map_err(|error| unusable(&home, &error))?;
            Ok(Arc::new(house.verbs.clone()) as Arc<dyn Verbs>)
        })
    })
}

fn unusable(home: &Home, error: &anyhow::Error) -> Refusal {
    let message = format!("The home {} cannot be used: {error:#}", home.path().display());
    Refusal::new(
        RefusalKind::Unavailable,
        home.path().display().to_string(),
        message,
    )
    .next_step("a person runs pentad doctor, which says what is wrong and what to do")
}

/// Cancels `shutdown` when the process is asked to end, or its terminal hangs up.
pub async fn end_on_signal(shutdown: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut hangup)) = (signal(SignalKind::terminate()), signal(SignalKind::hangup()))
    else {
        return;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
    shutdown.cancel();
}

/// Returns what the parts besides the home find worth knowing: SQLite, the journal, sources.
pub async fn further_findings(globals: &Globals) -> Vec<Finding> {
    let finding = |severity, subject: &str, message: String, next: Option<String>| Finding {
        severity,
        subject: subject.to_owned(),
        message,
        next,
    };
    let house = match House::open(globals).await {
        Ok(house) => house,
        Err(error) => {
            return vec![finding(Severity::Error, "home", format!("{error:#}"), None)];
        }
    };
    let mut found = Vec::new();
    for status in house.opened.catalog.statuses() {
        if let Readiness::Disabled { error } | Readiness::BackingOff { error, .. } = &status.readiness {
            let next = format!("repair it in config.toml, or pentad disconnect {}", status.source);
            found.push(finding(
                Severity::Error,
                &status.source,
                error.clone(),
                Some(next),
            ));
        }
        for d in status.diagnostics {
            let subject = format!("{}: {}", status.source, d.subject);
            found.push(finding(d.severity, &subject, d.message, d.next));
        }
    }
    house.close().await;
    found
}
