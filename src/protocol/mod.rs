//! The wire between the tool and a scenario process: bytes ↔ model values, no sockets.
//!
//! The process connects to the socket named in its environment and says hello; the tool answers with an
//! instruction; from then on the process tells events, and the tool says nothing but stop. A frame is a
//! length (u32, little endian, of what follows), a kind (u8) and a JSON payload; kinds that are not known are skipped.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::model::event::Event;
use crate::model::plan::RunPlan;

/// Raised when the two halves could misunderstand each other.
pub(crate) const VERSION: u32 = 1;
/// The address of the tool's socket, in the environment of a scenario process.
pub(crate) const SOCKET_ENV: &str = "__LOADTEST_SOCKET";
/// The token that the hello has to carry; good for one connection.
pub(crate) const TOKEN_ENV: &str = "__LOADTEST_TOKEN";
/// A frame that claims to be longer is no frame.
const LONGEST: usize = 64 << 20;

/// The scenario process's first words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) protocol: u32,
    /// The version of the library in the scenario process.
    pub(crate) library: String,
    pub(crate) token: String,
    pub(crate) pid: u32,
}

/// What the tool wants of the process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "there is one for each process")]
pub(crate) enum Instruction {
    /// Say which scenarios there are, and end.
    List,
    Run(RunPlan),
}

/// Everything that crosses the socket.
#[derive(Debug, Clone)]
pub(crate) enum Frame {
    Hello(Hello),
    Instruction(Box<Instruction>),
    Event(Box<Event>),
    /// Cut everything off now, and report.
    Stop,
}

const HELLO: u8 = 1;
const INSTRUCTION: u8 = 2;
const EVENT: u8 = 3;
const STOP: u8 = 4;

/// Why bytes are no frame.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a frame claims {0} bytes; at most {LONGEST} are allowed")]
    TooLong(usize),
    #[error("a frame has no kind")]
    Empty,
    #[error("a frame of kind {kind} cannot be read")]
    Malformed { kind: u8, source: serde_json::Error },
}

impl Frame {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, payload) = match self {
            Self::Hello(hello) => (HELLO, json(hello)),
            Self::Instruction(instruction) => (INSTRUCTION, json(instruction)),
            Self::Event(event) => (EVENT, json(event)),
            Self::Stop => (STOP, Vec::new()),
        };
        let length = u32::try_from(payload.len() + 1).unwrap_or(u32::MAX);
        [&length.to_le_bytes()[..], &[kind], &payload].concat()
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("the protocol's types have text keys and no failing serializers")
}

/// Puts frames together from bytes as they arrive.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    bytes: Vec<u8>,
}

impl Decoder {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame, if it is there.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        loop {
            let Some((length, rest)) = self.bytes.split_first_chunk::<4>() else { return Ok(None) };
            let length = u32::from_le_bytes(*length) as usize;
            if length > LONGEST {
                return Err(FrameError::TooLong(length));
            }
            let Some(frame) = rest.get(..length) else { return Ok(None) };
            let (kind, payload) = frame.split_first().ok_or(FrameError::Empty)?;
            let frame = match *kind {
                HELLO => Some(Frame::Hello(read(*kind, payload)?)),
                INSTRUCTION => Some(Frame::Instruction(read(*kind, payload)?)),
                EVENT => Some(Frame::Event(read(*kind, payload)?)),
                STOP => Some(Frame::Stop),
                _ => None,
            };
            self.bytes.drain(..4 + length);
            if frame.is_some() {
                return Ok(frame);
            }
        }
    }
}

fn read<T: DeserializeOwned>(kind: u8, payload: &[u8]) -> Result<T, FrameError> {
    serde_json::from_slice(payload).map_err(|source| FrameError::Malformed { kind, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello(token: &str) -> Frame {
        Frame::Hello(Hello { protocol: VERSION, library: "1.2.3".into(), token: token.into(), pid: 7 })
    }

    proptest! {
        #[test]
        fn frames_survive_any_cut_and_unknown_kinds_are_skipped(token in ".{0,40}", cut in 1_usize..9, kind in 5_u8..) {
            let unknown = [&3_u32.to_le_bytes()[..], &[kind, 1, 2]].concat();
            let bytes = [hello(&token).encode(), unknown, Frame::Stop.encode()].concat();
            let mut decoder = Decoder::default();
            let mut frames = Vec::new();
            for part in bytes.chunks(cut) {
                decoder.push(part);
                while let Some(frame) = decoder.next().unwrap() {
                    frames.push(frame);
                }
            }
            prop_assert_eq!(frames.len(), 2);
            prop_assert!(matches!(&frames[0], Frame::Hello(hello) if hello.token == token));
            prop_assert!(matches!(&frames[1], Frame::Stop));
        }

        #[test]
        fn garbage_is_an_error_or_nothing_and_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.next() {}
            prop_assert!(decoder.bytes.len() <= bytes.len());
        }
    }

    #[test]
    fn a_frame_of_absurd_length_is_refused_before_it_is_awaited() {
        let mut decoder = Decoder::default();
        decoder.push(&u32::MAX.to_le_bytes());
        assert!(matches!(decoder.next(), Err(FrameError::TooLong(_))));
    }
}
