"""What a person looks at: pictures and reports of what was flown."""
