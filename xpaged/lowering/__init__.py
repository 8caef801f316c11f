"""What several passes share on the way from `rock.attention` to one lane's program."""
