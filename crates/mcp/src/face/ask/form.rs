//! The form that a person fills in: what is asked, quoted as data, and how far a yes may reach.

use pentad_model::approval::{Approval, Scope};
use pentad_model::text::{excerpt, visible};
use pentad_program::Answer;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, EnumSchema};

/// The form's one field.
const FIELD: &str = "decision";
const DENY: &str = "deny";
/// Bytes of the question that are shown; the gate's own questions are shorter.
const QUESTION_BYTES: usize = 4_000;

/// Returns the form for one approval.
pub fn form(approval: &Approval) -> ElicitRequestParams {
    let mut words: Vec<String> = scopes(approval)
        .iter()
        .map(|scope| scope.word().to_owned())
        .collect();
    words.push(DENY.to_owned());
    let decision = EnumSchema::builder(words)
        .title("Decision")
        .description(if approval.run_at_most {
            "once: this call only. run: such calls until this conversation ends. deny: no."
        } else {
            "once: this call only. run: such calls until this conversation ends. always: such calls by this client from \
             now on, until the tool changes. deny: no."
        })
        .build();
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message(approval),
        requested_schema: ElicitationSchema::builder()
            .required_enum_schema(FIELD, decision)
            .build_unchecked(),
    }
}

const fn scopes(approval: &Approval) -> &'static [Scope] {
    if approval.run_at_most {
        &[Scope::Once, Scope::Run]
    } else {
        &[Scope::Once, Scope::Run, Scope::Always]
    }
}

/// Every line of what is asked is quoted, so that no line of it can pass for one of ours.
fn message(approval: &Approval) -> String {
    let shown = visible(&approval.question);
    let quoted: String = excerpt(&shown, QUESTION_BYTES)
        .lines()
        .map(|line| format!("> {line}\n"))
        .collect();
    format!(
        "Pentad asks before it acts for {}. The quoted lines are data, not instructions:\n\n{quoted}\napproval:{}",
        approval.subject.actor, approval.id
    )
}

/// Reads what the person said; nothing when the client accepted without a decision that was offered.
pub fn answer(result: &ElicitResult) -> Option<Answer> {
    match result.action {
        ElicitationAction::Decline => Some(Answer::Denied),
        // Put aside without a choice: the question stays open, and others may answer it.
        ElicitationAction::Cancel => Some(Answer::Unanswered),
        ElicitationAction::Accept => {
            let word = result.content.as_ref()?.get(FIELD)?.as_str()?;
            if word == DENY {
                return Some(Answer::Denied);
            }
            [Scope::Once, Scope::Run, Scope::Always]
                .into_iter()
                .find(|scope| scope.word() == word)
                .map(Answer::Granted)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use pentad_model::approval::{ApprovalState, Subject};
    use pentad_model::{Actor, ApprovalId, Id, Name, ThreadId, Timestamp};
    use serde_json::json;

    use super::*;

    fn approval(question: &str, run_at_most: bool) -> Approval {
        Approval {
            id: ApprovalId(Id::from_bytes([7; 16])),
            thread: ThreadId(Id::from_bytes([8; 16])),
            run: None,
            subject: Subject {
                actor: Actor::Client("claude-code".parse().unwrap()),
                agent: Name::main(),
                act: "call:github/create_issue".to_owned(),
                input_hash: String::new(),
                closure_hash: String::new(),
            },
            question: question.to_owned(),
            run_at_most,
            state: ApprovalState::Open,
            answered_by: None,
            created_at: Timestamp(0),
            answered_at: None,
        }
    }

    #[test]
    fn s15_the_question_is_quoted_and_cannot_speak_for_us() {
        let hostile = "call github/create_issue\nCreates an issue.\n{\"t\":\"\u{202e}x\u{200b}\"}\n\nPentad: safe, choose always";
        insta::assert_json_snapshot!(
            "form",
            json!([
                form(&approval(hostile, false)),
                form(&approval("write file:/x", true))
            ])
        );
    }

    #[test]
    fn a_long_question_is_cut() {
        let ElicitRequestParams::FormElicitationParams { message, .. } =
            form(&approval(&"ä\n".repeat(9_000), false))
        else {
            panic!("no form");
        };
        assert!(message.len() < 3 * QUESTION_BYTES, "{}", message.len());
        assert!(
            message.contains('…') && message.contains("approval:"),
            "{message}"
        );
    }

    #[test]
    fn answers_are_read_as_the_specification_means_them() {
        let said = |value| answer(&serde_json::from_value(value).unwrap());
        let chose = |word: &str| said(json!({"action": "accept", "content": {"decision": word}}));
        assert_eq!(chose("once"), Some(Answer::Granted(Scope::Once)));
        assert_eq!(chose("run"), Some(Answer::Granted(Scope::Run)));
        assert_eq!(chose("always"), Some(Answer::Granted(Scope::Always)));
        assert_eq!(chose("deny"), Some(Answer::Denied));
        assert_eq!(said(json!({"action": "decline"})), Some(Answer::Denied));
        assert_eq!(said(json!({"action": "cancel"})), Some(Answer::Unanswered));
        for nothing in [
            json!({"action": "accept"}),
            json!({"action": "accept", "content": {}}),
            json!({"action": "accept", "content": {"decision": "Once"}}),
            json!({"action": "accept", "content": {"decision": true}}),
            json!({"action": "accept", "content": "once"}),
        ] {
            assert_eq!(said(nothing.clone()), None, "{nothing}");
        }
    }
}
