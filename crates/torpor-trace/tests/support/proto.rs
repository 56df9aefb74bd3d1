// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Writes protobuf field by field.
#![allow(dead_code)] // Test programs use different parts.

pub fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub struct Message(pub Vec<u8>);

pub fn message() -> Message {
    Message::default()
}

impl Message {
    pub fn number(mut self, field: u32, value: u64) -> Message {
        self.0.extend(varint(u64::from(field) << 3));
        self.0.extend(varint(value));
        self
    }

    pub fn bytes(mut self, field: u32, bytes: impl AsRef<[u8]>) -> Message {
        self.0.extend(varint(u64::from(field) << 3 | 2));
        self.0.extend(varint(bytes.as_ref().len() as u64));
        self.0.extend_from_slice(bytes.as_ref());
        self
    }

    pub fn message(self, field: u32, message: Message) -> Message {
        self.bytes(field, message.0)
    }

    pub fn packed(self, field: u32, values: &[u64]) -> Message {
        self.bytes(field, values.iter().flat_map(|&value| varint(value)).collect::<Vec<u8>>())
    }
}

pub fn trace(packets: impl IntoIterator<Item = Message>) -> Vec<u8> {
    packets.into_iter().fold(message(), |trace, packet| trace.message(1, packet)).0
}

pub fn bundle(bundle: Message) -> Message {
    message().message(1, bundle)
}

/// Returns an `FtraceEvent`: time, task, and the event's own message under its number.
pub fn event(time_ns: u64, pid: u64, number: u32, payload: Message) -> Message {
    message().number(1, time_ns).number(2, pid).message(number, payload)
}

pub fn cpu_idle(time_ns: u64, cpu: u64, state: u32) -> Message {
    event(time_ns, 0, 13, message().number(1, state.into()).number(2, cpu))
}
