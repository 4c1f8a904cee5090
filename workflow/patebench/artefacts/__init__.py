"""Read artefacts (files that stages exchange): inputs that belong together, vote files, students' data and records."""
