//! Numbers written as HotSpot writes them, and read back.

use proptest::prelude::*;

use super::{Form, Packed};

/// `UNSIGNED5::write_uint`: `least` is the smallest byte of a number.
fn write(out: &mut Vec<u8>, value: u32, least: u32) {
    let low = 192 - least;
    let mut rest = value;
    for position in 0.. {
        if rest < low || position == 4 {
            out.push((least + rest) as u8);
            return;
        }
        rest -= low;
        out.push((least + low + rest % 64) as u8);
        rest >>= 6;
    }
}

proptest! {
    #[test]
    fn numbers_are_those_that_were_written(
        values in prop::collection::vec(prop_oneof![any::<u32>(), 0..300_u32, (0..32_u32).prop_map(|bit| 1 << bit)], 1..20),
    ) {
        for (form, least) in [(Form::WithZero, 0), (Form::WithoutZero, 1)] {
            let mut bytes = Vec::new();
            values.iter().for_each(|value| write(&mut bytes, *value, least));
            prop_assert!(form == Form::WithZero || !bytes.contains(&0));
            let mut packed = Packed::new(&bytes, form);
            for value in &values {
                prop_assert_eq!(packed.number(), Some(*value), "{:?} of {:?}", form, bytes);
            }
            prop_assert_eq!(packed.number(), None);
        }
    }

    #[test]
    fn signs_are_kept(value in any::<i32>()) {
        let mut bytes = Vec::new();
        // `encode_sign` of CompressedWriteStream.
        write(&mut bytes, ((value << 1) ^ (value >> 31)).cast_unsigned(), 1);
        prop_assert_eq!(Packed::new(&bytes, Form::WithoutZero).signed(), Some(value));
    }
}
