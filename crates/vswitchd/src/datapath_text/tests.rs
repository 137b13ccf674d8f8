mod composing;
mod reading;
