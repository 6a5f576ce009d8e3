//! Answers that a client brings from the person who sits at it.

use pentad_model::Caller;

use super::*;

impl Home {
    async fn question(&self, act: &Act) -> Question {
        match self.gate.consider(act, &Authority::everything()).await.unwrap() {
            Finding::Open(question) => *question,
            Finding::Permitted(permit) => panic!("permitted: {permit:?}"),
        }
    }
}

#[tokio::test]
async fn an_elicited_answer_is_the_clients_word_on_the_persons_behalf() {
    let home = home("");
    let act = call("github/create_issue");
    let question = home.question(&act).await;
    assert_eq!(question.refusal.kind, RefusalKind::ApprovalRequired);
    let answered = home
        .gate
        .answer_elicited(&question.approval, Decision::Grant(Scope::Once), &act.caller)
        .await
        .unwrap();
    assert_eq!(answered.state, ApprovalState::Granted(Scope::Once));
    assert_eq!(answered.answered_by, Some(client()));
    let by = Caller {
        actor: client(),
        on_behalf_of: Some(Actor::User),
    };
    assert_eq!(*home.store.answers.lock().unwrap(), [by]);
    assert_eq!(
        home.judge(&act).await.unwrap(),
        Reason::Approved(question.approval.id)
    );
    assert!(home.judge(&act).await.is_err(), "once is once");
}

#[tokio::test]
async fn a_wider_scope_is_cut_to_what_the_approval_allows() {
    let home = home("");
    let act = Act {
        destructive: true,
        ..call("github/delete_repo")
    };
    let question = home.question(&act).await;
    let answered = home
        .gate
        .answer_elicited(&question.approval, Decision::Grant(Scope::Always), &act.caller)
        .await
        .unwrap();
    assert_eq!(answered.state, ApprovalState::Granted(Scope::Run));
    let elsewhere = Act {
        thread: thread(2),
        ..act.clone()
    };
    assert!(home.judge(&act).await.is_ok());
    assert!(home.judge(&elsewhere).await.is_err());
}

#[tokio::test]
async fn a_no_is_remembered_as_a_persons_no() {
    let home = home("");
    let act = call("github/create_issue");
    let question = home.question(&act).await;
    home.gate
        .answer_elicited(&question.approval, Decision::Deny, &act.caller)
        .await
        .unwrap();
    assert_eq!(home.judge(&act).await.unwrap_err().kind, RefusalKind::Forbidden);
}

#[tokio::test]
async fn only_the_client_that_asked_brings_an_answer_and_only_to_an_open_question() {
    let home = home("");
    let act = call("github/create_issue");
    let question = home.question(&act).await.approval;
    let grant = Decision::Grant(Scope::Once);
    for stranger in [
        Actor::Client(name("other")),
        Actor::Agent(name("main")),
        Actor::Trigger(name("nightly")),
        Actor::System,
        Actor::User,
    ] {
        let caller = Caller::from(stranger);
        let refusal = home
            .gate
            .answer_elicited(&question, grant, &caller)
            .await
            .unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::Forbidden, "{caller:?}");
    }
    let agents = act_of_an_agent();
    let refusal = home
        .gate
        .answer_elicited(&home.question(&agents).await.approval, grant, &agents.caller)
        .await
        .unwrap_err();
    assert_eq!(
        refusal.kind,
        RefusalKind::Forbidden,
        "an agent is nobody's client"
    );
    home.gate
        .answer_elicited(&question, grant, &act.caller)
        .await
        .unwrap();
    let twice = home
        .gate
        .answer_elicited(&question, grant, &act.caller)
        .await
        .unwrap_err();
    assert_eq!(twice.kind, RefusalKind::Conflict);

    let late = call("github/close_issue");
    let question = home.question(&late).await.approval;
    home.later(MAX_AGE_MILLIS + 1);
    let refusal = home
        .gate
        .answer_elicited(&question, grant, &late.caller)
        .await
        .unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Conflict);
    assert!(refusal.message.contains("expired"), "{}", refusal.message);
}

fn act_of_an_agent() -> Act {
    super::act(Actor::Agent(name("main")), GrantVerb::Call, "github/create_issue")
}
