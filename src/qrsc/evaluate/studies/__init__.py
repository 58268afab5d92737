"""The paper's studies: which part of the method does how much, and how far it carries from one data set to another."""
