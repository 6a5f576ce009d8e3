//! Everything that a command works with: one home, opened.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use pentad_keeper::attach::{Desk, Peer, Remote, Role};
use pentad_keeper::{Calling, Config, Finding, Home, discover_workspace};
use pentad_mcp::{FaceLimits, FaceOptions, LazyVerbs};
use pentad_model::invocation::{ThreadChoice, Workspace};
use pentad_model::{Id, Invocation, Name, Outcome, Refusal, RefusalKind, Verb};
use pentad_program::{Attendance, Readiness, Severity, Verbs};
use serde_json::{Map, Value};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::args::Globals;
use crate::keep::{self, Place};
use crate::shell::{calling, prepared_home, thread_choice};
use crate::wire::Lifetime;

/// One home, opened for one caller.
pub struct House {
    /// The home.
    pub home: Home,
    /// The one way in, and what else commands need.
    pub desk: Arc<dyn Desk>,
    /// Who calls.
    pub calling: Calling,
    /// The agent of new threads.
    pub agent: Option<Name>,
    /// The thread to work in.
    pub thread: ThreadChoice,
    /// The folder to work in.
    pub workspace: Workspace,
    place: Place,
}

impl House {
    /// Opens the home that the arguments name, for one command: through its keeper, which is started when there is
    /// none, or in this process with `--in-process`.
    ///
    /// # Errors
    /// Fails when the home cannot be used or its configuration is not understood.
    pub async fn open(globals: &Globals) -> anyhow::Result<Self> {
        let (home, config) = located(globals)?;
        let place = if globals.in_process {
            Place::here_or_attached(&home, &config, Lifetime::Once, Role::Shell).await?
        } else {
            let remote = keep::keeper(&home, &config, Role::Shell)?;
            remote.attach().await?;
            Place::There(Arc::new(remote))
        };
        Self::of(globals, home, &config, place)
    }

    /// Opens the home as its keeper, or attaches to the process that is.
    ///
    /// # Errors
    /// Fails when the home cannot be used or its configuration is not understood.
    pub async fn open_long(globals: &Globals) -> anyhow::Result<Self> {
        let (home, config) = located(globals)?;
        let place = Place::here_or_attached(&home, &config, Lifetime::Long, Role::Shell).await?;
        Self::of(globals, home, &config, place)
    }

    /// Looks into the home where it is: through a keeper that runs, else in this process. Starts no keeper.
    ///
    /// # Errors
    /// Fails when the home cannot be used or its configuration is not understood.
    pub async fn look_into(globals: &Globals) -> anyhow::Result<Self> {
        let (home, config) = located(globals)?;
        let place = Place::here_or_attached(&home, &config, Lifetime::Once, Role::Shell).await?;
        Self::of(globals, home, &config, place)
    }

    fn of(globals: &Globals, home: Home, config: &Config, place: Place) -> anyhow::Result<Self> {
        let calling = calling();
        Ok(Self {
            desk: place.desk(),
            agent: globals.agent.clone(),
            thread: thread_choice(globals, &calling)?,
            workspace: workspace(globals, &home, config)?,
            calling,
            home,
            place,
        })
    }

    /// Returns the keeper that this house is attached to; without one, the home is kept here.
    pub const fn attached(&self) -> Option<&Arc<Remote>> {
        match &self.place {
            Place::There(remote) => Some(remote),
            Place::Here(_) => None,
        }
    }

    /// Is cancelled when a home that is kept here closes.
    pub fn closing(&self) -> CancellationToken {
        match &self.place {
            Place::Here(keeping) => keeping.closing().clone(),
            Place::There(_) => CancellationToken::new(),
        }
    }

    /// Ends what was started, in order and within limits.
    pub async fn close(self) {
        self.place.close().await;
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

fn located(globals: &Globals) -> anyhow::Result<(Home, Config)> {
    let home = prepared_home(globals)?;
    let config = Config::load(&home)?;
    Ok((home, config))
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
        state_key: Some(crate::wire::state_key(&home)),
        limits: FaceLimits::default(),
        shutdown: shutdown.clone(),
    };
    let place: Arc<OnceCell<Place>> = Arc::default();
    let verbs = lazy_verbs(&home, &place, globals.in_process);
    let owner = tokio::spawn(async move {
        tokio::select! {
            () = end_on_signal(shutdown.clone()) => {}
            () = crate::parent::gone() => shutdown.cancel(),
        }
    });
    pentad_mcp::serve(verbs, options, tokio::io::stdin(), tokio::io::stdout()).await;
    owner.abort();
    if let Some(place) = Arc::into_inner(place).and_then(OnceCell::into_inner) {
        place.close().await;
    }
    Ok(())
}

fn lazy_verbs(home: &Home, place: &Arc<OnceCell<Place>>, in_process: bool) -> LazyVerbs {
    let (home, place) = (home.clone(), Arc::downgrade(place));
    LazyVerbs::opened_by(move || {
        let (home, place) = (home.clone(), place.clone());
        Box::pin(async move {
            let gone = || Refusal::new(RefusalKind::Unavailable, "pentad", "This face is ending.");
            let cell = place.upgrade().ok_or_else(gone)?;
            let open = || async {
                let config = Config::load(&home)?;
                if in_process {
                    return Place::here_or_attached(&home, &config, Lifetime::Long, Role::Client).await;
                }
                let keeper = keep::keeper(&home, &config, Role::Client)?;
                keeper.attach().await?;
                anyhow::Ok(Place::There(Arc::new(keeper)))
            };
            let place = cell
                .get_or_try_init(open)
                .await
                .map_err(|error| unusable(&home, &error))?;
            let verbs: Arc<dyn Verbs> = match place {
                // A keeper judges this by itself.
                Place::Here(_) if !Peer::own_process().may_be_asked(Role::Client) => {
                    Arc::new(Unasked(place.desk()))
                }
                _ => place.desk(),
            };
            Ok(verbs)
        })
    })
}

/// Verbs whose questions reach nobody: an agent plays the client.
struct Unasked(Arc<dyn Desk>);

#[async_trait]
impl Verbs for Unasked {
    async fn invoke(&self, invocation: Invocation, attendance: Attendance) -> Outcome {
        let attendance = Attendance {
            asker: None,
            ..attendance
        };
        self.0.invoke(invocation, attendance).await
    }
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
    let house = match House::look_into(globals).await {
        Ok(house) => house,
        Err(error) => {
            return vec![finding(Severity::Error, "home", format!("{error:#}"), None)];
        }
    };
    let statuses = match house.desk.statuses().await {
        Ok(statuses) => statuses,
        Err(refusal) => {
            house.close().await;
            return vec![finding(Severity::Error, "keeper", refusal.to_text(), None)];
        }
    };
    let mut found = Vec::new();
    for status in statuses {
        if status.copies > 1 {
            let copies = format!("{} copies", status.copies);
            found.push(finding(Severity::Info, &status.source, copies, None));
        }
        if let Readiness::Disabled { error } | Readiness::BackingOff { error, .. } = &status.readiness {
            let name = &status.source;
            let next = format!(
                "mend what is wrong, then pentad connect {name} --again; or pentad disconnect {name}"
            );
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
